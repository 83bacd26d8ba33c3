// Package migrations holds the database: the roles and schemas (bootstrap.sql)
// and, one folder per schema, the numbered steps that make its tables. It is
// run by its own command, muniment-migrate, and never by a service.
//
// Steps only go forward. Services run both before and after each, so a step
// never removes what a running release still uses.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed bootstrap.sql
var bootstrap string

//go:embed */*.sql
var folders embed.FS

// Schema is a folder of migrations and the role of the service that uses it.
type Schema struct {
	Name, Role string
}

// Schemas are all schemas in the order in which they are migrated: outbox
// before ledger, whose role may insert into outbox's table.
var Schemas = []Schema{
	{"outbox", "muniment_relay"},
	{"ledger", "muniment_ledger"},
	{"signer", "muniment_signer"},
	{"reconciler", "muniment_reconciler"},
	{"feed", "muniment_feed"},
}

// lockKey is the advisory lock that one run holds from its first statement to
// its last, so that two runs on one database go one after the other.
const lockKey = 0x6d756e696d656e74 // "muniment"

// Status is how far one schema has come: its version, and the newest that this
// program knows.
type Status struct {
	Schema        string
	Version, Want int64
}

// Up brings the database to the newest state: roles, schemas, then each folder.
// The URL is a superuser's. Running it again changes nothing.
func Up(ctx context.Context, superuserURL string) error {
	conn, err := connect(ctx, superuserURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(lockKey)); err != nil {
		return fmt.Errorf("waiting for the lock of another migration: %w", err)
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, bootstrap)
		return err
	})
	if err != nil {
		return fmt.Errorf("making roles and schemas: %w", err)
	}
	for _, s := range Schemas {
		if err := up(ctx, superuserURL, s); err != nil {
			return fmt.Errorf("migrating schema %s: %w", s.Name, err)
		}
		if err := showVersion(ctx, conn, s); err != nil {
			return fmt.Errorf("granting %s its schema's version: %w", s.Role, err)
		}
	}
	return nil
}

// Read returns the state of every schema.
func Read(ctx context.Context, superuserURL string) ([]Status, error) {
	conn, err := connect(ctx, superuserURL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	states := make([]Status, 0, len(Schemas))
	for _, s := range Schemas {
		state := Status{Schema: s.Name}
		table := pgx.Identifier{s.Name, versionTable}.Sanitize()
		var exists bool
		if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", table).Scan(&exists); err != nil {
			return nil, fmt.Errorf("looking for the version of schema %s: %w", s.Name, err)
		}
		if exists {
			query := "SELECT coalesce(max(version_id), 0) FROM " + table + " WHERE is_applied"
			if err := conn.QueryRow(ctx, query).Scan(&state.Version); err != nil {
				return nil, fmt.Errorf("reading the version of schema %s: %w", s.Name, err)
			}
		}
		if state.Want, err = newest(s); err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}

func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		// The library's error may quote the URL, which may hold a password.
		return nil, errors.New("the database URL is not a usable postgres:// URL")
	}
	cfg.RuntimeParams["application_name"] = "muniment-migrate"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	return conn, nil
}

const versionTable = "goose_db_version"

// provider returns goose over one schema's folder, or nil for an empty folder.
// Its connections act as muniment_migrate, which therefore owns what they make,
// and find names in the schema alone.
func provider(superuserURL string, s Schema) (*goose.Provider, *sql.DB, error) {
	files, err := fs.Sub(folders, s.Name)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the folder: %w", err)
	}
	cfg, err := pgx.ParseConfig(superuserURL)
	if err != nil {
		return nil, nil, errors.New("the database URL is not a usable postgres:// URL")
	}
	cfg.RuntimeParams["application_name"] = "muniment-migrate"
	db := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET ROLE muniment_migrate; SET lock_timeout = '30s'; SET search_path = "+pgx.Identifier{s.Name}.Sanitize())
		return err
	}))
	p, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(s.Name+"."+versionTable), goose.WithDisableGlobalRegistry(true))
	if errors.Is(err, goose.ErrNoMigrations) {
		return nil, db, nil
	}
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("reading the migrations: %w", err)
	}
	return p, db, nil
}

func up(ctx context.Context, superuserURL string, s Schema) error {
	p, db, err := provider(superuserURL, s)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if p == nil {
		return nil
	}
	_, err = p.Up(ctx)
	return err
}

// showVersion lets the service's role read its schema's version, by which it
// tells whether it can run.
func showVersion(ctx context.Context, conn *pgx.Conn, s Schema) error {
	table := pgx.Identifier{s.Name, versionTable}.Sanitize()
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", table).Scan(&exists); err != nil || !exists {
		return err
	}
	_, err := conn.Exec(ctx, "GRANT SELECT ON "+table+" TO "+pgx.Identifier{s.Role}.Sanitize())
	return err
}

// newest is the highest version in a schema's folder.
func newest(s Schema) (int64, error) {
	entries, err := fs.Glob(folders, s.Name+"/*.sql")
	if err != nil {
		return 0, fmt.Errorf("listing the folder %s: %w", s.Name, err)
	}
	var highest int64
	for _, name := range entries {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("reading the number of %s: %w", name, err)
		}
		highest = max(highest, version)
	}
	return highest, nil
}

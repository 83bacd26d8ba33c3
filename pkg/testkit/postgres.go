package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/pg"
)

// roles are the login roles by the short names that URL takes.
var roles = map[string]string{
	"migrate":    "muniment_migrate",
	"ledger":     "muniment_ledger",
	"signer":     "muniment_signer",
	"reconciler": "muniment_reconciler",
	"relay":      "muniment_relay",
	"feed":       "muniment_feed",
}

// DB is a migrated database of one test.
type DB struct {
	Name string

	superuser *url.URL
	password  string
}

// Postgres makes a fresh, migrated database and drops it at the test's end.
func Postgres(t testing.TB) *DB {
	t.Helper()
	superuser, err := url.Parse(setting(t, "DATABASE_URL"))
	if err != nil {
		t.Fatal("MUNIMENT_TEST_DATABASE_URL is not a URL")
	}
	db := &DB{
		Name:      "t_" + strings.ToLower(rand.Text()[:12]) + "_test",
		superuser: superuser,
		password:  setting(t, "ROLE_PASSWORD"),
	}
	if err := db.create(setting(t, "TEMPLATE")); err != nil {
		t.Fatalf("making the test's database: %v", err)
	}
	t.Cleanup(func() {
		if err := db.drop(); err != nil {
			t.Errorf("dropping the test's database: %v", err)
		}
	})
	return db
}

// URL is the database's URL for a role: superuser, migrate, ledger, signer,
// reconciler, relay or feed.
func (d *DB) URL(role string) string {
	u := *d.superuser
	u.Path = "/" + d.Name
	if role == "superuser" {
		return u.String()
	}
	name, ok := roles[role]
	if !ok {
		panic("testkit: no role " + role)
	}
	u.User = url.UserPassword(name, d.password)
	return u.String()
}

// Pool opens a pool for a role, made as services make theirs, and closes it at
// the test's end.
func (d *DB) Pool(t testing.TB, role string) *pgxpool.Pool {
	t.Helper()
	settings := config.Database{URL: d.URL(role), MaxConns: 16, Mode: "prepared"}
	pool, err := pg.Open(context.Background(), settings, "test")
	if err != nil {
		t.Fatalf("opening a pool for %s: %v", role, err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// errNotATest guards what must never meet a fixture: an append-only archive.
var errNotATest = errors.New("refused: the name does not end in _test")

func (d *DB) create(template string) error {
	if !strings.HasSuffix(d.Name, "_test") {
		return fmt.Errorf("database %s: %w", d.Name, errNotATest)
	}
	name := pgx.Identifier{d.Name}.Sanitize()
	clone := "CREATE DATABASE " + name + " TEMPLATE " + pgx.Identifier{template}.Sanitize()
	for attempt := 0; ; attempt++ {
		err := d.maintain(clone)
		if err == nil {
			break
		}
		// For an instant, while the template is made anew, there is none.
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || (pgErr.Code != "3D000" && pgErr.Code != "55006") || attempt == 50 {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	// Privileges on the database itself are not cloned; these are bootstrap.sql's.
	grants := "REVOKE ALL ON DATABASE " + name + " FROM PUBLIC"
	var grantsSb114 strings.Builder
	for _, role := range roles {
		grantsSb114.WriteString("; GRANT CONNECT ON DATABASE " + name + " TO " + role)
	}
	grants += grantsSb114.String()
	return d.maintain(grants)
}

func (d *DB) drop() error {
	if !strings.HasSuffix(d.Name, "_test") {
		return fmt.Errorf("database %s: %w", d.Name, errNotATest)
	}
	return d.maintain("DROP DATABASE IF EXISTS " + pgx.Identifier{d.Name}.Sanitize() + " WITH (FORCE)")
}

// maintain runs SQL as the superuser outside of the test's database.
func (d *DB) maintain(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.superuser.String())
	if err != nil {
		return fmt.Errorf("connecting to the test server: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

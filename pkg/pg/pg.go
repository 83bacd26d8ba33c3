// Package pg opens a service's pool of Postgres connections and tells what the
// database's errors mean. It holds no SQL of any service.
package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/rpcerr"
)

// Open makes a pool for the service's role. It does not connect: a service
// starts whatever the others do, and says through its health that it waits.
func Open(ctx context.Context, settings config.Database, service string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(settings.URL)
	if err != nil {
		// The library's error may quote the URL, which may hold a password.
		return nil, errors.New("parsing DATABASE_URL: not a usable postgres:// URL")
	}
	if settings.Password != "" {
		cfg.ConnConfig.Password = settings.Password
	}
	cfg.MaxConns = settings.MaxConns
	cfg.MaxConnLifetime = 30 * time.Minute
	cfg.MaxConnLifetimeJitter = 5 * time.Minute
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	cfg.ConnConfig.RuntimeParams["application_name"] = "muniment-" + service
	cfg.ConnConfig.RuntimeParams["timezone"] = "UTC"
	cfg.AfterConnect = scanTimesAsUTC
	if settings.Mode == "exec" {
		// A pooler in transaction mode hands each statement to another
		// connection: no prepared statement outlives one. What a statement's
		// parameters are is asked once and kept here, without which lists of
		// UUIDs could not be sent.
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the database pool: %w", err)
	}
	return pool, nil
}

func scanTimesAsUTC(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name:  "timestamptz",
		OID:   pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	return nil
}

// querier is what RequireSchema needs of a pool.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// ErrSchemaTooOld is wrapped by RequireSchema.
var ErrSchemaTooOld = errors.New("database schema is too old")

// RequireSchema says whether the schema (a name of ours, such as "ledger") has
// been migrated at least to version want. A service on an older one is not
// ready and never migrates by itself.
func RequireSchema(ctx context.Context, db querier, schema string, want int64) error {
	var have int64
	err := db.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM "+pgx.Identifier{schema, "goose_db_version"}.Sanitize()+" WHERE is_applied").Scan(&have)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && (pgErr.Code == "42P01" || pgErr.Code == "3F000" || pgErr.Code == "42501") {
		have, err = 0, nil
	}
	if err != nil {
		return Classify(fmt.Errorf("reading the version of schema %s: %w", schema, err))
	}
	if have < want {
		return fmt.Errorf("%w: schema %s is at version %d, this service wants %d; run 'muniment-migrate up'", ErrSchemaTooOld, schema, have, want)
	}
	return nil
}

// IsUniqueViolation says whether err is a violation of the named constraint or
// unique index.
func IsUniqueViolation(err error, constraint string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "23505" && pgErr.ConstraintName == constraint
}

// Classify wraps rpcerr.ErrUnavailable around errors that mean that the
// database does not answer (refused, broken or saturated connections, shutdown,
// a statement that ran into its time limit), so that a caller is told to come
// again. Other errors pass as they are.
func Classify(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pgErr.Code[:2] {
		case "08", "53", "57", "40": // connection, resources, intervention, serialization
			return fmt.Errorf("%w: %w", rpcerr.ErrUnavailable, err)
		}
		return err
	}
	if connectionLost(err) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", rpcerr.ErrUnavailable, err)
	}
	return err
}

// connectionLost says whether there was no connection, or it ended under a
// statement: by a server that was killed, or by whatever stands in between. The
// driver passes the network's own errors on.
func connectionLost(err error) bool {
	var connectErr *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connectErr) || errors.As(err, &network) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// conflictTries is how often a transaction is tried that others got in the way of.
const conflictTries = 4

// Retry runs work, and runs it again where Postgres has undone it for a reason
// that passes: once when a migration has just invalidated a cached plan, a few
// times when it was chosen to end a deadlock or could not be put in an order with
// others. work must be a whole transaction, or a single statement.
func Retry(ctx context.Context, work func(ctx context.Context) error) error {
	stale := false
	for try := 1; ; try++ {
		err := work(ctx)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || ctx.Err() != nil || try == conflictTries {
			return Classify(err)
		}
		switch pgErr.Code {
		case "0A000": // "cached plan must not change result type"
			if stale {
				return Classify(err)
			}
			stale = true
		case "40001", "40P01": // serialization failure, deadlock
		default:
			return Classify(err)
		}
	}
}

// InTx runs work inside one transaction, again as Retry does.
func InTx(ctx context.Context, pool *pgxpool.Pool, work func(tx pgx.Tx) error) error {
	return Retry(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, pool, work)
	})
}

// Package store is the ledger's schema: crawls with their levels and pages,
// submissions, holes and archives. It holds every SQL statement of the service
// and is the only package that imports the driver. Rules that the schema can
// state stand there; what remains here is which rows change together.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// SchemaVersion is the version of schema ledger that this code needs.
const SchemaVersion = 5

const (
	// queryTimeout bounds a statement over a few rows.
	queryTimeout = 5 * time.Second
	// bulkTimeout bounds one over a whole level (up to 10,000 rows).
	bulkTimeout = 25 * time.Second
)

var (
	// ErrNoCrawl says that there is no such crawl.
	ErrNoCrawl = errors.New("no such crawl")
	// ErrNoLevel says that the crawl has no level of that depth.
	ErrNoLevel = errors.New("no such level")
	// ErrTooManyShares says that an archive has MaxShares others already.
	ErrTooManyShares = errors.New("too many shares of one archive")
	// ErrNoArchive says that there is no such archive.
	ErrNoArchive = errors.New("no such archive")
	// ErrNoTarget says that there is no such target.
	ErrNoTarget = errors.New("no such target")
	// ErrNoSubmission says that no such task was recorded.
	ErrNoSubmission = errors.New("no such submission")
)

// Store reads and writes schema ledger.
type Store struct {
	pool *pgxpool.Pool
}

// New returns a store over the pool of role muniment_ledger.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Ready says whether the database answers and its schema is new enough.
func (s *Store) Ready(ctx context.Context) error {
	return pg.RequireSchema(ctx, s.pool, "ledger", SchemaVersion)
}

// query runs one statement with the limit of small ones.
func (s *Store) query(ctx context.Context, work func(context.Context, *db.Queries) error) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return pg.Retry(ctx, func(ctx context.Context) error { return work(ctx, db.New(s.pool)) })
}

// statement runs one statement over many rows.
func (s *Store) statement(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	return pg.Retry(ctx, work)
}

// bulk runs one transaction over many rows.
func (s *Store) bulk(ctx context.Context, work func(context.Context, pgx.Tx, *db.Queries) error) error {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	return pg.InTx(ctx, s.pool, func(tx pgx.Tx) error { return work(ctx, tx, db.New(tx)) })
}

func isMissing(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// orElse turns 'no rows' into the sentinel of what was looked for.
func orElse(err, missing error) error {
	if isMissing(err) {
		return missing
	}
	return err
}

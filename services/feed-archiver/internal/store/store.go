// Package store is the feed archiver's side of schema feed. The as-issued
// tables are only ever inserted into and read; the schedule is working state.
// It knows rows and sets, and nothing of feeds or of JSON.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/services/feed-archiver/internal/store/db"
)

// SchemaVersion is the version of schema feed that this code needs.
const SchemaVersion = 3

const (
	// queryTimeout bounds one small statement.
	queryTimeout = 5 * time.Second
	// readTimeout bounds a statement that reads a whole set, or a large body.
	readTimeout = 20 * time.Second
	// recordTimeout bounds the statements that carry a whole read.
	recordTimeout = 2 * time.Minute
)

var (
	// ErrNotFound says that no such row exists.
	ErrNotFound = errors.New("no such row")
	// ErrFetchedAt says that the database refused a read for its fetched_at: it
	// lies in the future, or too far in the past.
	ErrFetchedAt = errors.New("fetched_at is not of this moment")
)

// Store reads and writes schema feed.
type Store struct {
	pool *pgxpool.Pool
}

// New returns a store over the pool of role muniment_feed.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Ready says whether the database answers and its schema is new enough.
func (s *Store) Ready(ctx context.Context) error {
	return pg.RequireSchema(ctx, s.pool, "feed", SchemaVersion)
}

// query runs one small statement, or a few, within their time limit.
func (s *Store) query(ctx context.Context, doing string, work func(context.Context, *db.Queries) error) error {
	return s.queryWithin(ctx, queryTimeout, doing, work)
}

func (s *Store) queryWithin(ctx context.Context, limit time.Duration, doing string, work func(context.Context, *db.Queries) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := pg.Retry(ctx, func(ctx context.Context) error { return work(ctx, db.New(s.pool)) })
	if err != nil {
		return fmt.Errorf("%s: %w", doing, knownError(err))
	}
	return nil
}

// knownError puts our own sentinel around what the database means.
func knownError(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && (pgErr.ConstraintName == "fetched_at_not_future" || pgErr.ConstraintName == "fetched_at_not_past") {
		return fmt.Errorf("%w: %w", ErrFetchedAt, err)
	}
	return err
}

// optional turns the empty text into an absent one.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// page turns the rest of a list into a page: one row more than size was asked
// for, and its presence says that more follow.
func page[T any](rows []T, size int) (_ []T, more bool) {
	if len(rows) > size {
		return rows[:size], true
	}
	return rows, false
}

// Package store keeps what the reconciler has tried: one row for each capture
// that once lacked an archive. It decides nothing.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/services/reconciler/internal/store/db"
)

// SchemaVersion is the version of schema reconciler that this code needs.
const SchemaVersion = 1

// queryTimeout bounds one statement.
const queryTimeout = 5 * time.Second

// Store reads and writes reconciler.attempts.
type Store struct {
	pool *pgxpool.Pool
}

// New returns a store over the pool of role muniment_reconciler.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Ready says whether the database answers and its schema is new enough.
func (s *Store) Ready(ctx context.Context) error {
	return pg.RequireSchema(ctx, s.pool, "reconciler", SchemaVersion)
}

// Claim takes those of the holes that are due (all, with force) and that no
// other replica holds, until the given time, and says how often each was tried.
func (s *Store) Claim(ctx context.Context, holes []uuid.UUID, now, until time.Time, force bool) (map[uuid.UUID]int, error) {
	claimed := make(map[uuid.UUID]int)
	err := s.run(ctx, func(ctx context.Context, q *db.Queries) error {
		rows, err := q.ClaimAttempts(ctx, db.ClaimAttemptsParams{ClaimedUntil: until, Now: now, TaskIds: holes, Force: force})
		if err != nil {
			return fmt.Errorf("claiming holes: %w", err)
		}
		for _, r := range rows {
			claimed[r.TaskID] = int(r.Attempts)
		}
		return nil
	})
	return claimed, err
}

// Defer gives a hole back until next. counts says whether the try is held
// against the capture: one that failed for reasons of ours is not.
func (s *Store) Defer(ctx context.Context, hole uuid.UUID, reason string, counts bool, now, next time.Time) error {
	var n int32
	if counts {
		n = 1
	}
	return s.run(ctx, func(ctx context.Context, q *db.Queries) error {
		if err := q.DeferAttempt(ctx, db.DeferAttemptParams{TaskID: hole, Counts: n, Now: now, NextAttemptAt: next, LastReason: reason}); err != nil {
			return fmt.Errorf("deferring a hole: %w", err)
		}
		return nil
	})
}

// Finish records that a hole is closed: outcome is admitted, already or never.
func (s *Store) Finish(ctx context.Context, hole uuid.UUID, outcome string, reason *string, now, next time.Time) error {
	return s.run(ctx, func(ctx context.Context, q *db.Queries) error {
		if err := q.FinishAttempt(ctx, db.FinishAttemptParams{TaskID: hole, Outcome: outcome, LastReason: reason, Now: now, NextAttemptAt: next}); err != nil {
			return fmt.Errorf("finishing a hole: %w", err)
		}
		return nil
	})
}

func (s *Store) run(ctx context.Context, work func(context.Context, *db.Queries) error) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return pg.Retry(ctx, func(ctx context.Context) error { return work(ctx, db.New(s.pool)) })
}

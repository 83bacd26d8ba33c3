package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// Level is one row of crawl_levels.
type Level = db.CrawlLevel

// PendingLevel is a level that waits to be dispatched.
type PendingLevel = db.PendingLevelRow

// PendingLevel returns a level that waits to be dispatched; nil where none does.
func (s *Store) PendingLevel(ctx context.Context) (*PendingLevel, error) {
	var level PendingLevel
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		level, err = q.PendingLevel(ctx)
		return err
	})
	if isMissing(err) {
		return nil, nil //nolint:nilnil // nothing to do is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a level to dispatch: %w", err)
	}
	return &level, nil
}

// ClaimLevel takes a level, so that the caller, and nobody after it, dispatches
// it; false where another replica was first or the crawl is closed.
func (s *Store) ClaimLevel(ctx context.Context, crawl uuid.UUID, depth int32) (bool, error) {
	var n int64
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		n, err = q.ClaimLevel(ctx, db.ClaimLevelParams{CrawlID: crawl, Depth: depth})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("claiming a level: %w", err)
	}
	return n > 0, nil
}

// LevelDispatched records the job that a level became.
func (s *Store) LevelDispatched(ctx context.Context, crawl uuid.UUID, depth int32, jobID string) error {
	return s.bulk(ctx, func(ctx context.Context, _ pgx.Tx, q *db.Queries) error {
		if err := q.SetLastJob(ctx, db.SetLastJobParams{ID: crawl, JobID: jobID, Depth: depth}); err != nil {
			return fmt.Errorf("recording the job: %w", err)
		}
		if err := q.SetLevelDispatched(ctx, db.SetLevelDispatchedParams{CrawlID: crawl, Depth: depth}); err != nil {
			return fmt.Errorf("marking the level as dispatched: %w", err)
		}
		return nil
	})
}

// LevelNotDispatched closes the crawl because its level could not be handed
// over; false where it is closed already, or the level was reported all the same.
func (s *Store) LevelNotDispatched(ctx context.Context, crawl uuid.UUID, depth int32, reason string, now time.Time) (bool, error) {
	var n int64
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		n, err = q.CloseUndispatchedCrawl(ctx, db.CloseUndispatchedCrawlParams{CrawlID: crawl, Depth: depth, Error: reason, Now: now})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("closing the crawl: %w", err)
	}
	return n > 0, nil
}

// Level returns one level, or ErrNoLevel.
func (s *Store) Level(ctx context.Context, crawl uuid.UUID, depth int32) (Level, error) {
	var level Level
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		level, err = q.GetLevel(ctx, db.GetLevelParams{CrawlID: crawl, Depth: depth})
		return err
	})
	if err != nil {
		return Level{}, fmt.Errorf("reading the level: %w", orElse(err, ErrNoLevel))
	}
	return level, nil
}

package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// Removal is an object whose archive was deleted and that is to go itself.
// Attempts counts this one.
type Removal = db.ClaimRemovalsRow

// ClaimRemovals takes up to limit objects to remove. Those that are neither
// finished, left nor postponed when the lease is over are taken again, by
// whichever replica.
func (s *Store) ClaimRemovals(ctx context.Context, limit int32, lease time.Duration) ([]Removal, error) {
	var removals []Removal
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		removals, err = q.ClaimRemovals(ctx, db.ClaimRemovalsParams{LeaseMs: lease.Milliseconds(), MaxRows: limit})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claiming objects to remove: %w", err)
	}
	return removals, nil
}

// FinishRemoval records that the object is gone.
func (s *Store) FinishRemoval(ctx context.Context, archive uuid.UUID) error {
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) error { return q.FinishRemoval(ctx, archive) })
	if err != nil {
		return fmt.Errorf("recording that an object is gone: %w", err)
	}
	return nil
}

// LeaveObject records that the object stays, and why.
func (s *Store) LeaveObject(ctx context.Context, archive uuid.UUID, note string) error {
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) error {
		return q.LeaveObject(ctx, db.LeaveObjectParams{ArchiveID: archive, Note: &note})
	})
	if err != nil {
		return fmt.Errorf("recording that an object stays: %w", err)
	}
	return nil
}

// PostponeRemoval records why the object is still there, and tries again after
// wait.
func (s *Store) PostponeRemoval(ctx context.Context, archive uuid.UUID, note string, wait time.Duration) error {
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) error {
		return q.PostponeRemoval(ctx, db.PostponeRemovalParams{ArchiveID: archive, Note: &note, WaitMs: wait.Milliseconds()})
	})
	if err != nil {
		return fmt.Errorf("recording that an object is still there: %w", err)
	}
	return nil
}

// CountRemovals says how many objects are still to go.
func (s *Store) CountRemovals(ctx context.Context) (int64, error) {
	var n int64
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		n, err = q.CountRemovals(ctx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("counting objects to remove: %w", err)
	}
	return n, nil
}

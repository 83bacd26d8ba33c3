package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// Archive is a row as callers see it.
type Archive = db.GetArchiveRow

// Position is a place in a list of archives, behind the row with that time and
// that id, whether or not there is one.
type Position struct {
	CapturedAt time.Time
	ID         uuid.UUID
}

// Archive returns one row, or ErrNoArchive.
func (s *Store) Archive(ctx context.Context, id uuid.UUID) (Archive, error) {
	var a Archive
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		a, err = q.GetArchive(ctx, id)
		return err
	})
	if err != nil {
		return Archive{}, fmt.Errorf("reading the archive: %w", orElse(err, ErrNoArchive))
	}
	return a, nil
}

// ArchiveHash returns the SHA-256 of an archive's object, nil while none is
// recorded, or ErrNoArchive.
func (s *Store) ArchiveHash(ctx context.Context, id uuid.UUID) ([]byte, error) {
	var hash []byte
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		hash, err = q.GetArchiveHash(ctx, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the archive's hash: %w", orElse(err, ErrNoArchive))
	}
	return hash, nil
}

// ListArchives returns up to limit rows that the filter lets pass, after a
// position in the filter's order.
func (s *Store) ListArchives(ctx context.Context, f ArchiveFilter, after Position, limit int32) ([]Archive, error) {
	sql, args := f.statement(after, limit)
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var archives []Archive
	err := pg.Retry(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		archives, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Archive])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing archives: %w", err)
	}
	return archives, nil
}

// CountRequested returns how many of some captures a subject asked for, or
// somebody else for one of the organizations.
func (s *Store) CountRequested(ctx context.Context, tasks []uuid.UUID, organizations []string, subject string) (int, error) {
	var n int64
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		n, err = q.CountRequested(ctx, db.CountRequestedParams{Tasks: tasks, Organizations: organizations, Subject: subject})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("counting the captures that were asked for: %w", err)
	}
	return int(n), nil
}

package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// Archive is a row as callers see it.
type Archive = db.GetArchiveRow

// Position is a place in the list of archives, newest first: everything that is
// older, or as old with a smaller id, comes after it.
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

// ListArchives returns up to limit rows after a position.
func (s *Store) ListArchives(ctx context.Context, after Position, limit int32) ([]Archive, error) {
	var archives []Archive
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) error {
		rows, err := q.ListArchives(ctx, db.ListArchivesParams{CapturedAt: after.CapturedAt, ID: after.ID, PageSize: limit})
		archives = make([]Archive, len(rows))
		for i, row := range rows {
			archives[i] = Archive(row)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing archives: %w", err)
	}
	return archives, nil
}

// ListArchivesAmong returns up to limit of the given archives after a position.
// An id that is not there is passed over.
func (s *Store) ListArchivesAmong(ctx context.Context, ids []uuid.UUID, after Position, limit int32) ([]Archive, error) {
	var archives []Archive
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) error {
		rows, err := q.ListArchivesAmong(ctx, db.ListArchivesAmongParams{Ids: ids, CapturedAt: after.CapturedAt, ID: after.ID, PageSize: limit})
		archives = make([]Archive, len(rows))
		for i, row := range rows {
			archives[i] = Archive(row)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing known archives: %w", err)
	}
	return archives, nil
}

package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// ArchiveLocation is where an archive's object is, as it was admitted.
type ArchiveLocation = db.GetArchiveLocationRow

// Hole is a recorded capture that lacks its archive.
type Hole = db.ListHolesRow

// ArchiveLocation returns where one archive is, or ErrNoArchive.
func (s *Store) ArchiveLocation(ctx context.Context, id uuid.UUID) (ArchiveLocation, error) {
	var row ArchiveLocation
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		row, err = q.GetArchiveLocation(ctx, id)
		return err
	})
	if err != nil {
		return ArchiveLocation{}, fmt.Errorf("reading the archive's location: %w", orElse(err, ErrNoArchive))
	}
	return row, nil
}

// Admitted says whether an archive is admitted under this key, or was and is
// deleted.
func (s *Store) Admitted(ctx context.Context, bucket, key string) (bool, error) {
	var admitted bool
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		admitted, err = q.WasAdmitted(ctx, db.WasAdmittedParams{Bucket: bucket, ObjectKey: key})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("looking for an archive under a key: %w", err)
	}
	return admitted, nil
}

// Holes lists up to limit holes in task id order, those behind after where given.
func (s *Store) Holes(ctx context.Context, after *uuid.UUID, limit int32) ([]Hole, error) {
	var holes []Hole
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		holes, err = q.ListHoles(ctx, db.ListHolesParams{After: after, PageSize: limit})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing holes: %w", err)
	}
	return holes, nil
}

// CloseHoles forgets holes and says how many there were.
func (s *Store) CloseHoles(ctx context.Context, tasks []uuid.UUID) (int64, error) {
	var n int64
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		n, err = q.DeleteHoles(ctx, tasks)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("closing holes: %w", err)
	}
	return n, nil
}

// AdmittedTasks returns those of the tasks that have an archive.
func (s *Store) AdmittedTasks(ctx context.Context, tasks []uuid.UUID) ([]uuid.UUID, error) {
	var admitted []uuid.UUID
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		admitted, err = q.ListAdmittedTasks(ctx, tasks)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing admitted tasks: %w", err)
	}
	return admitted, nil
}

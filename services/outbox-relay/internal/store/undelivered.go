package store

import (
	"context"

	"github.com/muniment/muniment/services/outbox-relay/internal/store/db"
)

// Undelivered says whether a row that names one of the keys still waits, or was
// set aside.
func (s *Store) Undelivered(ctx context.Context, keys []string) (waits bool, err error) {
	err = s.run(ctx, "looking for undelivered rows", func(ctx context.Context, q *db.Queries) error {
		waits, err = q.IsUndelivered(ctx, keys)
		return err
	})
	return waits, err
}

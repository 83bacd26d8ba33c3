package store

import (
	"context"
	"errors"

	"github.com/muniment/muniment/services/outbox-relay/internal/store/db"
)

// ErrNotDead is returned for a row that is not set aside, or not any more.
var ErrNotDead = errors.New("the row is not set aside")

// Discard is who gives a dead row up, and why.
type Discard struct {
	ID int64
	// Certificate is the name that spoke, Person whom it spoke for.
	Certificate, Person string
	Reason              string
}

// Discard ends a dead row that will never be delivered; later rows of its keys
// go on. What it held, and who gave it up, is kept for ever.
func (s *Store) Discard(ctx context.Context, d Discard) error {
	return s.run(ctx, "discarding a row", func(ctx context.Context, q *db.Queries) error {
		ended, err := q.Discard(ctx, db.DiscardParams{RowID: d.ID, Certificate: d.Certificate, Person: d.Person, Reason: d.Reason})
		if err == nil && ended == 0 {
			err = ErrNotDead
		}
		return err
	})
}

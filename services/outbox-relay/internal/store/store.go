// Package store moves the states of outbox.fga_outbox: claimed, delivered, given
// back, refused, set aside. It decides nothing, queues nothing and removes
// nothing; the role it runs as could not.
//
// The order of delivery is made here, by Claim: it takes a row only when no
// earlier undelivered row of any of its keys is left.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/services/outbox-relay/internal/store/db"
)

// SchemaVersion is the version of schema outbox that this code needs.
const SchemaVersion = 2

// queryTimeout bounds one statement.
const queryTimeout = 5 * time.Second

// ErrClaimLost is returned where a row is no longer held under the claim: its
// time ran out and another relay took it.
var ErrClaimLost = errors.New("the claim has run out")

// Row is a queued row as a relay delivers it.
type Row struct {
	ID        int64
	Payload   []byte
	CreatedAt time.Time
	// Attempts counts the deliveries that the engine refused.
	Attempts int
	// TuplesDone is how many of its tuples have landed already.
	TuplesDone int
}

// Dead is a row that was set aside.
type Dead struct {
	ID        int64
	Payload   []byte
	Keys      []string
	CreatedAt time.Time
	DeadAt    time.Time
	Attempts  int
	Reason    string
}

// Stats says how far behind the delivery is.
type Stats struct {
	Waiting, Dead int64
	// Oldest is when the first waiting row was queued; nil when none waits.
	Oldest *time.Time
}

// Store reads the outbox and moves its rows' states.
type Store struct {
	pool *pgxpool.Pool
}

// New returns a store over the pool of role muniment_relay.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Ready says whether the database answers and its schema is new enough.
func (s *Store) Ready(ctx context.Context) error {
	return pg.RequireSchema(ctx, s.pool, "outbox", SchemaVersion)
}

// Claim takes up to limit deliverable rows under the given claim, for the length
// of the lease from some moment after the call began. No two of them share a
// key, and nobody else takes them until the lease ends.
func (s *Store) Claim(ctx context.Context, claim uuid.UUID, lease time.Duration, limit int) ([]Row, error) {
	var rows []Row
	err := s.run(ctx, "claiming rows", func(ctx context.Context, q *db.Queries) error {
		claimed, err := q.Claim(ctx, db.ClaimParams{Claim: &claim, LeaseMs: lease.Milliseconds(), MaxRows: int32(limit)})
		if err != nil {
			return err
		}
		rows = make([]Row, 0, len(claimed))
		for _, r := range claimed {
			rows = append(rows, Row{
				ID: r.ID, Payload: r.Payload, CreatedAt: r.CreatedAt,
				Attempts: int(r.Attempts), TuplesDone: int(r.TuplesDone),
			})
		}
		return nil
	})
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.ID, b.ID) })
	return rows, err
}

// Renew makes the lease of all these rows begin anew, or returns ErrClaimLost.
func (s *Store) Renew(ctx context.Context, claim uuid.UUID, ids []int64, lease time.Duration) error {
	return s.held(ctx, "renewing a claim", len(ids), func(ctx context.Context, q *db.Queries) (int64, error) {
		return q.Renew(ctx, db.RenewParams{LeaseMs: lease.Milliseconds(), Ids: ids, Claim: &claim})
	})
}

// Advance remembers that the first tuples of a row have landed.
func (s *Store) Advance(ctx context.Context, claim uuid.UUID, id int64, tuplesDone int) error {
	return s.held(ctx, "recording progress", 1, func(ctx context.Context, q *db.Queries) (int64, error) {
		return q.Advance(ctx, db.AdvanceParams{TuplesDone: int32(tuplesDone), ID: id, Claim: &claim})
	})
}

// Deliver marks rows as delivered. Rows whose claim was lost stay as they are,
// for whoever holds them now, and ErrClaimLost says so.
func (s *Store) Deliver(ctx context.Context, claim uuid.UUID, ids []int64) error {
	return s.held(ctx, "marking rows as delivered", len(ids), func(ctx context.Context, q *db.Queries) (int64, error) {
		return q.Deliver(ctx, db.DeliverParams{Ids: ids, Claim: &claim})
	})
}

// Release gives rows back and spends no attempt. Nobody takes them for wait.
func (s *Store) Release(ctx context.Context, claim uuid.UUID, ids []int64, wait time.Duration) error {
	return s.run(ctx, "giving rows back", func(ctx context.Context, q *db.Queries) error {
		_, err := q.Release(ctx, db.ReleaseParams{WaitMs: wait.Milliseconds(), Ids: ids, Claim: &claim})
		return err
	})
}

// Refuse spends an attempt of a row and remembers why. It is taken again after
// wait, or, with dead, only when a person says so.
func (s *Store) Refuse(ctx context.Context, claim uuid.UUID, id int64, reason string, wait time.Duration, dead bool) error {
	return s.held(ctx, "recording a refusal", 1, func(ctx context.Context, q *db.Queries) (int64, error) {
		return q.Refuse(ctx, db.RefuseParams{Reason: &reason, WaitMs: wait.Milliseconds(), Dead: dead, ID: id, Claim: &claim})
	})
}

// Stats counts.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	var stats Stats
	err := s.run(ctx, "counting rows", func(ctx context.Context, q *db.Queries) error {
		row, err := q.Stats(ctx)
		if err != nil {
			return err
		}
		stats = Stats{Waiting: row.Waiting, Dead: row.Dead}
		oldest, err := q.OldestWaiting(ctx)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		stats.Oldest = &oldest
		return nil
	})
	return stats, err
}

// ListDead lists rows that were set aside, by id, beginning after afterID.
func (s *Store) ListDead(ctx context.Context, afterID int64, limit int) ([]Dead, error) {
	var dead []Dead
	err := s.run(ctx, "listing dead rows", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.ListDead(ctx, db.ListDeadParams{AfterID: afterID, MaxRows: int32(limit)})
		if err != nil {
			return err
		}
		dead = make([]Dead, 0, len(rows))
		for _, r := range rows {
			dead = append(dead, Dead{
				ID: r.ID, Payload: r.Payload, Keys: r.Keys, CreatedAt: r.CreatedAt,
				DeadAt: *r.DeadAt, Attempts: int(r.Attempts), Reason: *r.LastError,
			})
		}
		return nil
	})
	return dead, err
}

// Retry gives dead rows another round of attempts and says how many there were.
func (s *Store) Retry(ctx context.Context, ids []int64) (retried int64, err error) {
	err = s.run(ctx, "retrying rows", func(ctx context.Context, q *db.Queries) error {
		retried, err = q.Retry(ctx, ids)
		return err
	})
	return retried, err
}

// RetryAll is Retry for all dead rows.
func (s *Store) RetryAll(ctx context.Context) (retried int64, err error) {
	err = s.run(ctx, "retrying all rows", func(ctx context.Context, q *db.Queries) error {
		retried, err = q.RetryAll(ctx)
		return err
	})
	return retried, err
}

// held runs a statement that must move exactly want rows of a claim.
func (s *Store) held(ctx context.Context, doing string, want int, move func(context.Context, *db.Queries) (int64, error)) error {
	return s.run(ctx, doing, func(ctx context.Context, q *db.Queries) error {
		moved, err := move(ctx, q)
		if err != nil {
			return err
		}
		if moved != int64(want) {
			return ErrClaimLost
		}
		return nil
	})
}

// run bounds a statement in time.
func (s *Store) run(ctx context.Context, doing string, work func(context.Context, *db.Queries) error) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err := pg.Retry(ctx, func(ctx context.Context) error { return work(ctx, db.New(s.pool)) })
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

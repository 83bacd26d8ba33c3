package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/services/feed-archiver/internal/store/db"
)

// Meet makes a source that has no schedule yet due after wait.
func (s *Store) Meet(ctx context.Context, source string, wait time.Duration) error {
	return s.query(ctx, "scheduling "+source, func(ctx context.Context, q *db.Queries) error {
		return q.MeetSource(ctx, db.MeetSourceParams{Source: source, WaitSeconds: wait.Seconds()})
	})
}

// Claim takes a source for a reader until the lease ends, if it is due (or with
// force in any case) and nobody else holds it. due is when it was to be read.
func (s *Store) Claim(ctx context.Context, source string, reader uuid.UUID, lease time.Duration, force bool) (due time.Time, claimed bool, err error) {
	err = s.query(ctx, "claiming "+source, func(ctx context.Context, q *db.Queries) error {
		row, err := q.ClaimSource(ctx, db.ClaimSourceParams{Source: source, Reader: reader, LeaseSeconds: lease.Seconds(), Force: force})
		due = row.NextReadAt
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return time.Time{}, false, nil
	}
	return due, err == nil, err
}

// Renew prolongs a claim and says whether it was still held.
func (s *Store) Renew(ctx context.Context, source string, reader uuid.UUID, lease time.Duration) (bool, error) {
	var n int64
	err := s.query(ctx, "renewing the claim of "+source, func(ctx context.Context, q *db.Queries) (err error) {
		n, err = q.RenewClaim(ctx, db.RenewClaimParams{Source: source, Reader: reader, LeaseSeconds: lease.Seconds()})
		return err
	})
	return n == 1, err
}

// Release gives a source back, due again after wait.
func (s *Store) Release(ctx context.Context, source string, reader uuid.UUID, wait time.Duration) error {
	return s.query(ctx, "releasing "+source, func(ctx context.Context, q *db.Queries) error {
		_, err := q.ReleaseSource(ctx, db.ReleaseSourceParams{Source: source, Reader: reader, WaitSeconds: wait.Seconds()})
		return err
	})
}

// State is what the tables show of a source.
type State struct {
	Source string
	// NextReadAt is nil before a source's first read.
	NextReadAt *time.Time
	Reading    bool
	// LastReadAt and LastFailureAt are nil where there was none.
	LastReadAt, LastFailureAt *time.Time
	LastFailure               string
	// Reads, Seen and New count the last day. Unchanged are those of the reads
	// that were answered with 304.
	Reads, Unchanged, Seen, New int64
}

// States returns the states of the named sources, in order of their names.
func (s *Store) States(ctx context.Context, sources []string) ([]State, error) {
	var states []State
	err := s.query(ctx, "reading the sources' states", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.ListSourceStates(ctx, sources)
		states = make([]State, 0, len(rows))
		for _, r := range rows {
			states = append(states, State{
				Source: r.Source, NextReadAt: r.NextReadAt, Reading: r.Reading, LastReadAt: afterEpoch(r.LastReadAt),
				LastFailureAt: afterEpoch(r.LastFailureAt), LastFailure: r.LastFailure, Reads: r.Reads, Unchanged: r.Unchanged, Seen: r.Seen, New: r.Fresh,
			})
		}
		return err
	})
	return states, err
}

func afterEpoch(t time.Time) *time.Time {
	if t.Unix() <= 0 {
		return nil
	}
	return &t
}

// MaxFetchAge is how old a read may be when it is stored.
func (s *Store) MaxFetchAge(ctx context.Context) (time.Duration, error) {
	var seconds float64
	err := s.query(ctx, "reading how old a read may be", func(ctx context.Context, q *db.Queries) (err error) {
		seconds, err = q.GetMaxFetchAge(ctx)
		return err
	})
	return time.Duration(seconds * float64(time.Second)), err
}

// Validator is what makes a request conditional.
type Validator struct {
	URLHash, ETag, LastModified string
	// PollID is the poll that it came with.
	PollID int64
}

// Validator returns what the last stored read of a request came with, or nil
// when another read of that request was stored since.
func (s *Store) Validator(ctx context.Context, source, request string) (*Validator, error) {
	var v Validator
	err := s.query(ctx, "reading a validator of "+source, func(ctx context.Context, q *db.Queries) error {
		row, err := q.GetValidator(ctx, db.GetValidatorParams{Source: source, Request: request})
		v = Validator{URLHash: row.UrlHash, ETag: row.Etag, LastModified: row.LastModified}
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// PutValidator keeps what a stored read came with; nil forgets the one before.
func (s *Store) PutValidator(ctx context.Context, source, request string, v *Validator) error {
	return s.query(ctx, "keeping a validator of "+source, func(ctx context.Context, q *db.Queries) error {
		if v == nil {
			return q.DropValidator(ctx, db.DropValidatorParams{Source: source, Request: request})
		}
		return q.PutValidator(ctx, db.PutValidatorParams{
			Source: source, Request: request, UrlHash: v.URLHash, Etag: v.ETag, LastModified: v.LastModified, PollID: v.PollID,
		})
	})
}

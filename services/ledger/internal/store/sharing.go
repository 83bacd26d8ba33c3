package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// Share lets a subject view an archive from GrantedAt until Until.
type Share = db.ListSharesRow

// queueTuples queues one outbox row. Nothing can be read back: it is another
// service's table.
const queueTuples = `INSERT INTO outbox.fga_outbox (payload) VALUES ($1)`

// MaxShares is how many shares of one archive may be in force. What ends by time
// alone leaves its row and its tuple behind until somebody shares the archive
// again, and those count for nothing.
const MaxShares = 1000

// clocksApart is how long ago a share must have ended to be cleared away: the
// clock of one replica may be ahead.
const clocksApart = time.Hour

// PutShare writes a share, new or in place of an earlier one, with its tuple, and
// clears away what shares of the archive have ended by then. It returns
// ErrNoArchive or ErrTooManyShares.
//
// The engine keeps one condition for each tuple and takes no other in its place,
// so the tuple is deleted first. That is so for a new share as well: what an
// earlier life of the ledger may have left there would otherwise refuse the row
// for good, and every later row of the archive with it.
func (s *Store) PutShare(ctx context.Context, archive uuid.UUID, share Share, grantedBy string) error {
	tuple := fga.ShareTuple(archive.String(), share.Subject, share.GrantedAt, share.Until.Sub(share.GrantedAt))
	return s.changeSharing(ctx, archive, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		var gone keySet
		ended, err := q.DeleteEndedShares(ctx, db.DeleteEndedSharesParams{ArchiveID: archive, Now: share.GrantedAt.Add(-clocksApart)})
		if err != nil {
			return fmt.Errorf("clearing away ended shares: %w", err)
		}
		for _, subject := range ended {
			gone.add(viewer(archive, subject))
		}
		gone.add(tuple.Key())
		others, err := q.CountOtherShares(ctx, db.CountOtherSharesParams{ArchiveID: archive, Subject: share.Subject, Now: share.GrantedAt})
		if err != nil {
			return fmt.Errorf("counting the archive's shares: %w", err)
		}
		if others >= MaxShares {
			return ErrTooManyShares
		}
		n, err := q.PutShare(ctx, db.PutShareParams{
			ArchiveID: archive, Subject: share.Subject, GrantedBy: grantedBy, GrantedAt: share.GrantedAt, Until: share.Until,
		})
		if err != nil {
			return fmt.Errorf("writing the share: %w", err)
		}
		if n == 0 {
			return ErrNoArchive
		}
		return queue(ctx, tx, gone.keys, []fga.Tuple{tuple})
	})
}

// RemoveShare takes a share back with its tuple; false where there was none. The
// tuple's removal is queued in either case: what the ledger does not know of, or
// what an operator discarded, must not outlast somebody's saying so.
func (s *Store) RemoveShare(ctx context.Context, archive uuid.UUID, subject string) (removed bool, err error) {
	err = s.changeSharing(ctx, archive, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		n, err := q.DeleteShare(ctx, db.DeleteShareParams{ArchiveID: archive, Subject: subject})
		if err != nil {
			return fmt.Errorf("removing the share: %w", err)
		}
		removed = n > 0
		return queue(ctx, tx, []fga.Key{viewer(archive, subject)}, nil)
	})
	return removed, err
}

// Shares lists an archive's shares that have not ended, by subject.
func (s *Store) Shares(ctx context.Context, archive uuid.UUID, now time.Time) ([]Share, error) {
	var shares []Share
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		shares, err = q.ListShares(ctx, db.ListSharesParams{ArchiveID: archive, Now: now})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing shares: %w", err)
	}
	return shares, nil
}

// DeleteArchive replaces an archive by its tombstone and queues the removal of
// its tuples: those that the ledger knows of, and those given in held, which the
// engine was found to hold. It returns the task, or ErrNoArchive.
//
// What belongs to the capture and not to the archive goes with its last archive.
// No other one can come meanwhile: the tombstone holds the task.
func (s *Store) DeleteArchive(ctx context.Context, archive uuid.UUID, by string, at time.Time, held []fga.Key) (task uuid.UUID, err error) {
	err = s.changeSharing(ctx, archive, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		gone := keySet{}
		gone.add(held...)
		subjects, err := q.DeleteShares(ctx, archive)
		if err != nil {
			return fmt.Errorf("removing the shares: %w", err)
		}
		for _, subject := range subjects {
			gone.add(viewer(archive, subject))
		}
		task, err = q.BuryArchive(ctx, db.BuryArchiveParams{ArchiveID: archive, DeletedBy: by, DeletedAt: at})
		if err != nil {
			return fmt.Errorf("writing the tombstone: %w", orElse(err, ErrNoArchive))
		}
		capture, err := q.GetCapture(ctx, task)
		if err != nil && !isMissing(err) {
			return fmt.Errorf("reading whose the capture is: %w", err)
		}
		submitter := ""
		if capture.SubmittedBy != nil {
			submitter = *capture.SubmittedBy
		}
		for _, t := range fga.CaptureTuples(archive.String(), task.String(), capture.OrgID, submitter) {
			ofArchive := t.Object == fga.Archive(archive.String())
			if ofArchive || (err == nil && !capture.HasArchive) {
				gone.add(t.Key())
			}
		}
		return queue(ctx, tx, gone.keys, nil)
	})
	return task, err
}

// changeSharing runs one change of who may view an archive, while no other runs.
func (s *Store) changeSharing(ctx context.Context, archive uuid.UUID, work func(context.Context, pgx.Tx, *db.Queries) error) error {
	return s.bulk(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		if err := q.LockArchive(ctx, fga.Archive(archive.String())); err != nil {
			return fmt.Errorf("waiting for another change of the archive: %w", err)
		}
		return work(ctx, tx, q)
	})
}

func viewer(archive uuid.UUID, subject string) fga.Key {
	return fga.Key{User: fga.User(subject), Relation: "viewer", Object: fga.Archive(archive.String())}
}

// queue is the last step of a transaction: from here on it holds the locks of
// its objects.
func queue(ctx context.Context, tx pgx.Tx, deletes []fga.Key, writes []fga.Tuple) error {
	payload, err := json.Marshal(struct {
		Writes  []fga.Tuple `json:"writes"`
		Deletes []fga.Key   `json:"deletes"`
	}{append([]fga.Tuple{}, writes...), append([]fga.Key{}, deletes...)})
	if err != nil {
		return fmt.Errorf("encoding the outbox row: %w", err)
	}
	if _, err := tx.Exec(ctx, queueTuples, payload); err != nil {
		return fmt.Errorf("queuing tuples: %w", err)
	}
	return nil
}

// keySet is a list without repeats.
type keySet struct {
	keys []fga.Key
	seen map[fga.Key]bool
}

func (s *keySet) add(keys ...fga.Key) {
	for _, key := range keys {
		if s.seen[key] {
			continue
		}
		if s.seen == nil {
			s.seen = map[fga.Key]bool{}
		}
		s.seen[key] = true
		s.keys = append(s.keys, key)
	}
}

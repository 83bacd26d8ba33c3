// Package sharing is what the people whose an archive is may do with it: let
// others view it for a time, take that back, and delete it.
//
// The engine is asked for each right, at its highest consistency, and changed
// through the outbox alone, in the transaction that changes the ledger's rows.
package sharing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/identity"
	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// ErrNotFound says that there is no such archive, or that the caller may not do
// this with it: one answer, which takes one time.
var ErrNotFound = errors.New("no such archive for this caller")

type archives interface {
	PutShare(ctx context.Context, archive uuid.UUID, share store.Share, grantedBy string) error
	RemoveShare(ctx context.Context, archive uuid.UUID, subject string) (bool, error)
	Shares(ctx context.Context, archive uuid.UUID, now time.Time) ([]store.Share, error)
	DeleteArchive(ctx context.Context, archive uuid.UUID, by string, at time.Time, held []fga.Key) (uuid.UUID, error)
}

type engine interface {
	Check(ctx context.Context, q fga.Query) (bool, error)
	Read(ctx context.Context, filter fga.Key, visit func(fga.Tuple) error) error
}

type delivery interface {
	Wait(ctx context.Context, objects ...string) bool
}

// Service changes who may view an archive.
type Service struct {
	archives archives
	engine   engine
	delivery delivery
	// removeObjects wakes the loop that removes the objects of deleted archives.
	removeObjects func()
	log           *zap.Logger
	now           func() time.Time
}

// New returns the service.
func New(a archives, e engine, d delivery, removeObjects func(), log *zap.Logger, now func() time.Time) *Service {
	return &Service{archives: a, engine: e, delivery: d, removeObjects: removeObjects, log: log, now: now}
}

// Share lets subject view an archive for a time that begins now, whatever was
// granted to him before. delivered says whether the engine has it.
func (s *Service) Share(ctx context.Context, who identity.Identity, archive uuid.UUID, subject string, length time.Duration) (share store.Share, delivered bool, err error) {
	now, err := s.may(ctx, who, "can_share", archive)
	if err != nil {
		return store.Share{}, false, err
	}
	share = store.Share{Subject: subject, GrantedAt: now, Until: now.Add(length)}
	if err := s.archives.PutShare(ctx, archive, share, who.Subject); err != nil {
		return store.Share{}, false, orNotFound(err)
	}
	telemetry.Log(ctx, s.log).Info("archive shared", zap.Stringer("archive_id", archive),
		zap.String("by", who.Subject), zap.String("with", subject), zap.Time("until", share.Until))
	return share, s.delivery.Wait(ctx, fga.Archive(archive.String())), nil
}

// Unshare takes a share back before its end; removed is false where there was
// none.
func (s *Service) Unshare(ctx context.Context, who identity.Identity, archive uuid.UUID, subject string) (removed, delivered bool, err error) {
	if _, err := s.may(ctx, who, "can_share", archive); err != nil {
		return false, false, err
	}
	if removed, err = s.archives.RemoveShare(ctx, archive, subject); err != nil {
		return false, false, err
	}
	if removed {
		telemetry.Log(ctx, s.log).Info("share taken back", zap.Stringer("archive_id", archive), zap.String("by", who.Subject), zap.String("from", subject))
	}
	// Also where nothing was removed: who asks twice wants to know whether the
	// first time has arrived.
	return removed, s.delivery.Wait(ctx, fga.Archive(archive.String())), nil
}

// List returns the shares that have not ended, to those who may share.
func (s *Service) List(ctx context.Context, who identity.Identity, archive uuid.UUID) ([]store.Share, error) {
	now, err := s.may(ctx, who, "can_share", archive)
	if err != nil {
		return nil, err
	}
	return s.archives.Shares(ctx, archive, now)
}

// Delete removes an archive for everybody and for good. Its object follows.
func (s *Service) Delete(ctx context.Context, who identity.Identity, archive uuid.UUID) (delivered bool, err error) {
	now, err := s.may(ctx, who, "can_delete", archive)
	if err != nil {
		return false, err
	}
	// What the engine holds beyond what the ledger knows of, such as a grant to
	// an organization that an operator wrote, goes as well.
	var held []fga.Key
	err = s.engine.Read(ctx, fga.Key{Object: fga.Archive(archive.String())}, func(t fga.Tuple) error {
		held = append(held, t.Key())
		return nil
	})
	if err != nil {
		return false, err
	}
	task, err := s.archives.DeleteArchive(ctx, archive, who.Subject, now, held)
	if err != nil {
		return false, orNotFound(err)
	}
	s.removeObjects()
	telemetry.Log(ctx, s.log).Info("archive deleted", zap.Stringer("archive_id", archive), zap.Stringer("task_id", task), zap.String("by", who.Subject))
	return s.delivery.Wait(ctx, fga.Archive(archive.String()), fga.CaptureJob(task.String())), nil
}

// may asks whether the caller stands in a relation to an archive, and returns
// the time that was asked about, as exact as the database keeps it.
func (s *Service) may(ctx context.Context, who identity.Identity, relation string, archive uuid.UUID) (time.Time, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	allowed, err := s.engine.Check(ctx, fga.Query{
		Subject: who.Subject, Organizations: who.Organizations,
		Relation: relation, Object: fga.Archive(archive.String()),
		At: now, HighConsistency: true,
	})
	if err != nil {
		return time.Time{}, err
	}
	if !allowed {
		return time.Time{}, fmt.Errorf("%w: %s is not his", ErrNotFound, relation)
	}
	return now, nil
}

func orNotFound(err error) error {
	if errors.Is(err, store.ErrNoArchive) {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
}

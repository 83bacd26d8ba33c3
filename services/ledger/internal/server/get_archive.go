package server

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/identity"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/listing"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

type archives interface {
	Archive(ctx context.Context, id uuid.UUID) (store.Archive, error)
	ArchiveHash(ctx context.Context, id uuid.UUID) ([]byte, error)
}

type lister interface {
	List(ctx context.Context, who identity.Identity, r listing.Request) (listing.Page, error)
}

type checker interface {
	Check(ctx context.Context, q fga.Query) (bool, error)
}

// GetArchive returns one row, visible as the archive is.
func (s *Archives) GetArchive(ctx context.Context, req *ledgerv1.GetArchiveRequest) (*ledgerv1.Archive, error) {
	id, err := s.visible(ctx, req.GetArchiveId())
	if err != nil {
		return nil, err
	}
	row, err := s.archives.Archive(ctx, id)
	if errors.Is(err, store.ErrNoArchive) {
		return nil, rpcerr.NotFound(err)
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return archive(row), nil
}

// visible returns the id of an archive that the caller may view. The engine is
// asked first and always, so that what is not there and what is not allowed are
// one answer that takes one time.
func (s *Archives) visible(ctx context.Context, rawID string) (uuid.UUID, error) {
	who, err := caller(ctx)
	if err != nil {
		return uuid.Nil, err
	}
	id, err := uuid.Parse(rawID)
	if err != nil {
		return uuid.Nil, rpcerr.Invalid("archiveId", "must be a UUID")
	}
	allowed, err := s.engine.Check(ctx, fga.Query{
		Subject: who.Subject, Organizations: who.Organizations,
		Relation: "can_view", Object: fga.Archive(id.String()),
		At: s.now(), HighConsistency: true,
	})
	if err != nil {
		return uuid.Nil, rpcerr.From(err)
	}
	if !allowed {
		return uuid.Nil, rpcerr.NotFound(nil)
	}
	return id, nil
}

// archive turns a row into what callers see.
func archive(a store.Archive) *ledgerv1.Archive {
	return &ledgerv1.Archive{
		Id:           a.ID.String(),
		TaskId:       a.TaskID.String(),
		SourceUrl:    a.SourceUrl,
		Labels:       a.Labels,
		WaczComplete: a.WaczComplete,
		Signed:       a.Signed,
		CapturedAt:   timestamppb.New(a.CapturedAt),
		ObjectKey:    a.ObjectKey,
	}
}

// caller is the end user behind a call.
func caller(ctx context.Context) (identity.Identity, error) {
	who, ok := identity.FromContext(ctx)
	if !ok {
		return identity.Identity{}, rpcerr.Unauthenticated(errors.New("no identity in the call's context"))
	}
	return who, nil
}

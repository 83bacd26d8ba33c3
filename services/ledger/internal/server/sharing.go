package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/identity"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/sharing"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// sharer is what may be done with an archive by those whose it is.
type sharer interface {
	Share(ctx context.Context, who identity.Identity, archive uuid.UUID, subject string, length time.Duration) (store.Share, bool, error)
	Unshare(ctx context.Context, who identity.Identity, archive uuid.UUID, subject string) (removed, delivered bool, err error)
	List(ctx context.Context, who identity.Identity, archive uuid.UUID) ([]store.Share, error)
	Delete(ctx context.Context, who identity.Identity, archive uuid.UUID) (delivered bool, err error)
}

// Sharing serves SharingService.
type Sharing struct {
	ledgerv1.UnimplementedSharingServiceServer
	sharer sharer
}

// NewSharing returns the service.
func NewSharing(s sharer) *Sharing { return &Sharing{sharer: s} }

// archiveOf reads who calls, and which archive he means.
func archiveOf(ctx context.Context, text string) (identity.Identity, uuid.UUID, error) {
	who, err := caller(ctx)
	if err != nil {
		return identity.Identity{}, uuid.Nil, err
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return identity.Identity{}, uuid.Nil, rpcerr.Invalid("archiveId", "must be a UUID")
	}
	return who, id, nil
}

// checkSubject refuses what the engine could not take as a user, before anything
// is queued.
func checkSubject(subject string) error {
	if err := identity.CheckSubject(subject); err != nil {
		return rpcerr.Invalid("subject", err.Error())
	}
	return nil
}

// sharingError tells 'not there' and 'not allowed' alike.
func sharingError(err error) error {
	switch {
	case errors.Is(err, sharing.ErrNotFound):
		return rpcerr.NotFound(err)
	case errors.Is(err, store.ErrTooManyShares):
		return rpcerr.Conflict(fmt.Sprintf("the archive has %d shares, and more are not possible", store.MaxShares), nil)
	}
	return rpcerr.From(err)
}

package server

import (
	"context"
	"errors"

	"github.com/google/uuid"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// LookupArchive tells where one archive's object is.
func (s *Registry) LookupArchive(ctx context.Context, req *ledgerv1.LookupArchiveRequest) (*ledgerv1.LookupArchiveResponse, error) {
	id, err := uuid.Parse(req.GetArchiveId())
	if err != nil {
		return nil, rpcerr.Invalid("archiveId", "must be a UUID")
	}
	at, err := s.rows.ArchiveLocation(ctx, id)
	if errors.Is(err, store.ErrNoArchive) {
		return nil, rpcerr.NotFound(err)
	}
	if err != nil {
		return nil, err
	}
	return &ledgerv1.LookupArchiveResponse{
		ArchiveId: at.ID.String(), Bucket: at.Bucket, ObjectKey: at.ObjectKey,
		VersionId: at.ObjectVersionID, Etag: &at.ObjectEtag, Size: &at.ObjectSize,
	}, nil
}

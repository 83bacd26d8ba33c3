package server

import (
	"context"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
)

// DeleteArchive removes an archive for everybody and for good.
func (s *Sharing) DeleteArchive(ctx context.Context, req *ledgerv1.DeleteArchiveRequest) (*ledgerv1.DeleteArchiveResponse, error) {
	who, id, err := archiveOf(ctx, req.GetArchiveId())
	if err != nil {
		return nil, err
	}
	delivered, err := s.sharer.Delete(ctx, who, id)
	if err != nil {
		return nil, sharingError(err)
	}
	return &ledgerv1.DeleteArchiveResponse{Deleted: true, Delivered: delivered}, nil
}

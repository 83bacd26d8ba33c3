package server

import (
	"context"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
)

// UnshareArchive takes a share back before its end.
func (s *Sharing) UnshareArchive(ctx context.Context, req *ledgerv1.UnshareArchiveRequest) (*ledgerv1.UnshareArchiveResponse, error) {
	who, id, err := archiveOf(ctx, req.GetArchiveId())
	if err != nil {
		return nil, err
	}
	if err := checkSubject(req.GetSubject()); err != nil {
		return nil, err
	}
	removed, delivered, err := s.sharer.Unshare(ctx, who, id, req.GetSubject())
	if err != nil {
		return nil, sharingError(err)
	}
	return &ledgerv1.UnshareArchiveResponse{Removed: removed, Delivered: delivered}, nil
}

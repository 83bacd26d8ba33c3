package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
)

// ShareArchive lets a subject view an archive until a time.
func (s *Sharing) ShareArchive(ctx context.Context, req *ledgerv1.ShareArchiveRequest) (*ledgerv1.ShareArchiveResponse, error) {
	who, id, err := archiveOf(ctx, req.GetArchiveId())
	if err != nil {
		return nil, err
	}
	if err := checkSubject(req.GetSubject()); err != nil {
		return nil, err
	}
	share, delivered, err := s.sharer.Share(ctx, who, id, req.GetSubject(), time.Duration(req.GetSeconds())*time.Second)
	if err != nil {
		return nil, sharingError(err)
	}
	return &ledgerv1.ShareArchiveResponse{Subject: share.Subject, Until: timestamppb.New(share.Until), Delivered: delivered}, nil
}

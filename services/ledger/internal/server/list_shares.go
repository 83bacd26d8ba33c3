package server

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
)

// ListShares lists the shares that have not ended, to those who may share.
func (s *Sharing) ListShares(ctx context.Context, req *ledgerv1.ListSharesRequest) (*ledgerv1.ListSharesResponse, error) {
	who, id, err := archiveOf(ctx, req.GetArchiveId())
	if err != nil {
		return nil, err
	}
	shares, err := s.sharer.List(ctx, who, id)
	if err != nil {
		return nil, sharingError(err)
	}
	reply := &ledgerv1.ListSharesResponse{}
	for _, share := range shares {
		reply.Shares = append(reply.Shares, &ledgerv1.Share{
			Subject: share.Subject, GrantedAt: timestamppb.New(share.GrantedAt), Until: timestamppb.New(share.Until),
		})
	}
	return reply, nil
}

package server

import (
	"context"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
)

// ListHoles lists recorded captures that still lack an archive.
func (s *Registry) ListHoles(ctx context.Context, req *ledgerv1.ListHolesRequest) (*ledgerv1.ListHolesResponse, error) {
	var after *uuid.UUID
	if req.AfterTaskId != nil {
		id, err := uuid.Parse(req.GetAfterTaskId())
		if err != nil {
			return nil, rpcerr.Invalid("afterTaskId", "must be a UUID")
		}
		after = &id
	}
	holes, err := s.rows.Holes(ctx, after, req.GetPageSize())
	if err != nil {
		return nil, err
	}
	resp := &ledgerv1.ListHolesResponse{}
	for _, h := range holes {
		hole := &ledgerv1.Hole{TaskId: h.TaskID.String(), Bucket: s.bucket, SubmittedAt: timestamppb.New(h.SubmittedAt)}
		if h.ManifestKey != nil {
			hole.ManifestKey = *h.ManifestKey
		}
		resp.Holes = append(resp.Holes, hole)
	}
	return resp, nil
}

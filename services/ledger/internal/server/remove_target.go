package server

import (
	"context"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
)

// RemoveTarget forgets a target.
func (s *Targets) RemoveTarget(ctx context.Context, req *ledgerv1.RemoveTargetRequest) (*ledgerv1.RemoveTargetResponse, error) {
	if err := s.mayChange(ctx, req.GetTargetId()); err != nil {
		return nil, err
	}
	removed, err := s.rows.RemoveTarget(ctx, req.GetTargetId())
	if err != nil {
		return nil, err
	}
	return &ledgerv1.RemoveTargetResponse{Removed: removed}, nil
}

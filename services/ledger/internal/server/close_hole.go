package server

import (
	"context"

	"github.com/google/uuid"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
)

// CloseHole forgets a hole for good. Why, is in the call's log line and in the
// reconciler's own table.
func (s *Registry) CloseHole(ctx context.Context, req *ledgerv1.CloseHoleRequest) (*ledgerv1.CloseHoleResponse, error) {
	task, err := uuid.Parse(req.GetTaskId())
	if err != nil {
		return nil, rpcerr.Invalid("taskId", "must be a UUID")
	}
	n, err := s.rows.CloseHoles(ctx, []uuid.UUID{task})
	if err != nil {
		return nil, err
	}
	return &ledgerv1.CloseHoleResponse{Closed: n > 0}, nil
}

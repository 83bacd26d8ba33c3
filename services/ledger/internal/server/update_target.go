package server

import (
	"context"
	"errors"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// UpdateTarget says whether crawls from targets take this one.
func (s *Targets) UpdateTarget(ctx context.Context, req *ledgerv1.UpdateTargetRequest) (*ledgerv1.Target, error) {
	if err := s.mayChange(ctx, req.GetTargetId()); err != nil {
		return nil, err
	}
	t, err := s.rows.SetTargetEnabled(ctx, req.GetTargetId(), req.GetEnabled(), s.now().UTC())
	if errors.Is(err, store.ErrNoTarget) {
		return nil, rpcerr.NotFound(err)
	}
	if err != nil {
		return nil, err
	}
	return target(t), nil
}

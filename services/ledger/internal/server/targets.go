package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// targetRows is what the methods ask of the ledger's tables.
type targetRows interface {
	AddTargets(ctx context.Context, org string, targets []store.NewTarget, now time.Time) (int64, error)
	RemoveTarget(ctx context.Context, id int64) (bool, error)
	SetTargetEnabled(ctx context.Context, id int64, enabled bool, now time.Time) (store.Target, error)
	Target(ctx context.Context, id int64) (store.Target, error)
	Targets(ctx context.Context, org string, after int64, limit int32) ([]store.Target, error)
}

// Targets serves TargetService.
type Targets struct {
	ledgerv1.UnimplementedTargetServiceServer
	rows   targetRows
	rights rights
	now    func() time.Time
}

// NewTargets returns the service.
func NewTargets(rows targetRows, r rights, now func() time.Time) *Targets {
	return &Targets{rows: rows, rights: r, now: now}
}

// mayChange returns nil where the caller may submit for the target's
// organization. The engine is asked in any case, so that a missing target and a
// foreign one take the same time.
func (s *Targets) mayChange(ctx context.Context, id int64) error {
	who, err := caller(ctx)
	if err != nil {
		return err
	}
	t, missing := s.rows.Target(ctx, id)
	if missing != nil && !errors.Is(missing, store.ErrNoTarget) {
		return missing
	}
	org := t.OrgID
	if missing != nil {
		org = nobody
	}
	may, err := s.rights.MaySubmit(ctx, who.Subject, []string{org}, org, s.now())
	if err != nil {
		return fmt.Errorf("asking whether the caller may submit: %w", err)
	}
	if missing != nil {
		return rpcerr.NotFound(missing)
	}
	if !may {
		return rpcerr.NotFound(errors.New("the caller may not submit for the target's organization"))
	}
	return nil
}

func target(t store.Target) *ledgerv1.Target {
	return &ledgerv1.Target{Id: t.ID, Url: t.Url, Labels: t.Labels, Enabled: t.Enabled, CreatedAt: timestamppb.New(t.CreatedAt)}
}

package server

import (
	"context"
	"errors"
	"strings"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/services/ledger/internal/crawl"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// AddTargets adds targets to an organization. A target must be what a crawl
// takes as a seed: what is none is refused here, where its owner sees it, and
// not when a crawl from targets starts.
func (s *Targets) AddTargets(ctx context.Context, req *ledgerv1.AddTargetsRequest) (*ledgerv1.AddTargetsResponse, error) {
	who, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkOrganization(req.OrgId); err != nil {
		return nil, err
	}
	resp := &ledgerv1.AddTargetsResponse{}
	var targets []store.NewTarget
	for _, t := range req.GetTargets() {
		url := strings.TrimSpace(t.GetUrl())
		var bad *crawl.SeedError
		if err := crawl.CheckSeeds([]string{url}); errors.As(err, &bad) {
			resp.Refused = append(resp.Refused, &ledgerv1.RefusedTarget{Url: t.GetUrl(), Reason: bad.Rule})
			continue
		}
		targets = append(targets, store.NewTarget{URL: url, Labels: t.GetLabels()})
	}
	org, err := submitFor(ctx, s.rights, who, req.OrgId, s.now())
	if err != nil {
		return nil, err
	}
	if resp.Added, err = s.rows.AddTargets(ctx, org, targets, s.now().UTC()); err != nil {
		return nil, err
	}
	resp.Known = int64(len(targets)) - resp.GetAdded()
	return resp, nil
}

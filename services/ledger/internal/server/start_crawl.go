package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/muniment/muniment/pkg/identity"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/crawl"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// StartCrawl writes a crawl and returns without waiting for the webhook.
func (s *Crawls) StartCrawl(ctx context.Context, req *ledgerv1.StartCrawlRequest) (*ledgerv1.StartCrawlResponse, error) {
	id, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkStart(req); err != nil {
		return nil, err
	}
	org, err := submitFor(ctx, s.rights, id, req.OrgId, s.now())
	if err != nil {
		return nil, err
	}
	order := crawl.Order{
		OrgID: org, SubmittedBy: &id.Subject, Seeds: req.GetSeeds(),
		FromTargets: req.FromTargets != nil,
		Scope:       req.Scope, MaxDepth: req.MaxDepth, MaxPages: req.MaxPages, PerHostDelayMS: req.PerHostDelayMs, HostParallelism: req.HostParallelism,
	}
	if req.FromTargets != nil {
		order.TargetLimit = req.FromTargets.Limit
	}
	if id.Service {
		order.SubmittedBy = nil
	}
	crawlID, err := s.policy.Start(ctx, order)
	if err != nil {
		return nil, s.startError(ctx, id, err)
	}
	return &ledgerv1.StartCrawlResponse{CrawlId: crawlID.String()}, nil
}

// checkStart is what of the shape the contract's rules cannot say.
func checkStart(req *ledgerv1.StartCrawlRequest) error {
	if err := checkOrganization(req.OrgId); err != nil {
		return err
	}
	var bad *crawl.SeedError
	if err := crawl.CheckSeeds(req.GetSeeds()); errors.As(err, &bad) {
		return rpcerr.Invalid(fmt.Sprintf("seeds[%d]", bad.Index), bad.Rule)
	}
	return nil
}

// startError names the crawl in progress only to those who may see it.
func (s *Crawls) startError(ctx context.Context, id identity.Identity, err error) error {
	var running *store.RunningError
	var bad *crawl.SeedError
	switch {
	case errors.Is(err, crawl.ErrNoTargets):
		return rpcerr.Invalid("fromTargets", "the organization has no enabled target")
	case errors.As(err, &bad):
		return rpcerr.Invalid("fromTargets", "an enabled target is no page's URL: "+bad.Rule)
	case !errors.As(err, &running):
		return err
	case running.OrgID == "":
		return rpcerr.Conflict(running.Error(), nil)
	}
	may, askErr := s.rights.MaySubmit(ctx, id.Subject, []string{running.OrgID}, running.OrgID, s.now())
	if askErr != nil {
		return fmt.Errorf("asking whether the caller may see the running crawl: %w", askErr)
	}
	if !may {
		return rpcerr.Conflict(running.Error(), nil)
	}
	return rpcerr.Conflict(running.Error(), map[string]string{
		"crawlId":   running.ID.String(),
		"startedAt": running.StartedAt.UTC().Format(time.RFC3339Nano),
	})
}

package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/crawl"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// ReportLevel records what one level brought and answers what comes next.
func (s *Crawls) ReportLevel(ctx context.Context, req *ledgerv1.ReportLevelRequest) (*ledgerv1.ReportLevelResponse, error) {
	results, err := reportedResults(req.GetResults())
	if err != nil {
		return nil, err
	}
	c, err := s.crawlOf(ctx, req.GetCrawlId())
	if err != nil {
		return nil, err
	}
	reply, err := s.policy.Report(ctx, c, req.GetDepth(), results)
	if errors.Is(err, store.ErrNoLevel) {
		return nil, rpcerr.Invalid("depth", "the crawl has no level of that depth")
	}
	if err != nil {
		return nil, err
	}
	resp := &ledgerv1.ReportLevelResponse{StopReason: reply.StopReason}
	for _, p := range reply.Next {
		resp.Next = append(resp.Next, &ledgerv1.NextPage{Url: p.Url, Host: p.Host, Depth: p.Depth})
	}
	return resp, nil
}

func reportedResults(messages []*ledgerv1.LevelResult) ([]crawl.Result, error) {
	results := make([]crawl.Result, len(messages))
	for i, m := range messages {
		results[i] = crawl.Result{
			URL: m.GetUrl(), Status: m.GetStatus(), SkipReason: m.SkipReason, CorrelationID: m.CorrelationId,
			SubmittedAt: instant(m.GetSubmittedAt()), FinishedAt: instant(m.GetFinishedAt()),
			LinksLocation: m.LinksLocation, ManifestLocation: m.ManifestLocation, ManifestError: m.ManifestError,
		}
		if m.TaskId != nil {
			id, err := uuid.Parse(m.GetTaskId())
			if err != nil {
				return nil, rpcerr.Invalid(fmt.Sprintf("results[%d].taskId", i), "must be a UUID")
			}
			results[i].TaskID = &id
		}
	}
	return results, nil
}

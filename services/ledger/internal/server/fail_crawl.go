package server

import (
	"context"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// FailCrawl closes a running crawl as failed.
func (s *Crawls) FailCrawl(ctx context.Context, req *ledgerv1.FailCrawlRequest) (*ledgerv1.FailCrawlResponse, error) {
	c, err := s.crawlOf(ctx, req.GetCrawlId())
	if err != nil {
		return nil, err
	}
	closed, err := s.rows.CloseCrawl(ctx, c.ID, store.StopFailed, req.Reason, s.now().UTC())
	if err != nil {
		return nil, err
	}
	return &ledgerv1.FailCrawlResponse{Closed: closed}, nil
}

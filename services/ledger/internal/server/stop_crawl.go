package server

import (
	"context"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// StopCrawl closes a running crawl: no further level is dispatched.
func (s *Crawls) StopCrawl(ctx context.Context, req *ledgerv1.StopCrawlRequest) (*ledgerv1.StopCrawlResponse, error) {
	c, err := s.crawlOf(ctx, req.GetCrawlId())
	if err != nil {
		return nil, err
	}
	stopped, err := s.rows.CloseCrawl(ctx, c.ID, store.StopStopped, nil, s.now().UTC())
	if err != nil {
		return nil, err
	}
	return &ledgerv1.StopCrawlResponse{Stopped: stopped}, nil
}

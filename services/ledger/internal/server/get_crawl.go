package server

import (
	"context"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
)

// latestFailures is how many failures a crawl is shown with.
const latestFailures = 5

// GetCrawl returns one crawl with its latest failures.
func (s *Crawls) GetCrawl(ctx context.Context, req *ledgerv1.GetCrawlRequest) (*ledgerv1.Crawl, error) {
	c, err := s.crawlOf(ctx, req.GetCrawlId())
	if err != nil {
		return nil, err
	}
	failures, err := s.rows.Failures(ctx, c.ID, latestFailures)
	if err != nil {
		return nil, err
	}
	return crawlMessage(c, failures), nil
}

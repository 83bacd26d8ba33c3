// Package server is the ledger's gRPC side, one file for each method: check,
// convert, authorize, work, map the error, convert. It holds no SQL and no rule
// of crawls or admission.
package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/crawl"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// crawlRows is what the methods ask of the ledger's tables.
type crawlRows interface {
	CloseCrawl(ctx context.Context, id uuid.UUID, stopReason string, reason *string, now time.Time) (bool, error)
	Crawl(ctx context.Context, id uuid.UUID) (store.Crawl, error)
	Failures(ctx context.Context, id uuid.UUID, n int32) ([]store.Failure, error)
	ListCrawls(ctx context.Context, f store.CrawlFilter) ([]store.Crawl, error)
}

// policy is the ledger's policy of crawls.
type policy interface {
	Start(ctx context.Context, order crawl.Order) (uuid.UUID, error)
	Report(ctx context.Context, c store.Crawl, depth int32, results []crawl.Result) (store.LevelReply, error)
}

// rights asks the authorization engine who may submit for whom.
type rights interface {
	submitters
	MaySubmit(ctx context.Context, subject string, organizations []string, organization string, at time.Time) (bool, error)
}

// Crawls serves CrawlService.
type Crawls struct {
	ledgerv1.UnimplementedCrawlServiceServer
	rows   crawlRows
	policy policy
	rights rights
	now    func() time.Time
}

// NewCrawls returns the service.
func NewCrawls(rows crawlRows, p policy, r rights, now func() time.Time) *Crawls {
	return &Crawls{rows: rows, policy: p, rights: r, now: now}
}

// GetMe says who the caller is and for whom he may submit.
func (s *Crawls) GetMe(ctx context.Context, _ *ledgerv1.GetMeRequest) (*ledgerv1.GetMeResponse, error) {
	return getMe(ctx, s.rights, s.now())
}

// nobody is asked about where there is no crawl, so that a missing crawl and a
// foreign one take the same time. It is a name that no organization can have.
const nobody = "."

// crawlOf returns a crawl that the caller may submit for. Whether he belongs to
// its organization is not asked: the right to submit is granted and stored, and
// a workflow engine's own subject belongs to none.
func (s *Crawls) crawlOf(ctx context.Context, rawID string) (store.Crawl, error) {
	id, err := caller(ctx)
	if err != nil {
		return store.Crawl{}, err
	}
	crawlID, err := uuid.Parse(rawID)
	if err != nil {
		return store.Crawl{}, rpcerr.Invalid("crawlId", "must be a UUID")
	}
	c, missing := s.rows.Crawl(ctx, crawlID)
	if missing != nil && !errors.Is(missing, store.ErrNoCrawl) {
		return store.Crawl{}, missing
	}
	org := c.OrgID
	if missing != nil {
		org = nobody
	}
	may, err := s.rights.MaySubmit(ctx, id.Subject, []string{org}, org, s.now())
	if err != nil {
		return store.Crawl{}, fmt.Errorf("asking whether the caller may submit: %w", err)
	}
	if missing != nil {
		return store.Crawl{}, rpcerr.NotFound(missing)
	}
	if !may {
		return store.Crawl{}, rpcerr.NotFound(errors.New("the caller may not submit for the crawl's organization"))
	}
	return c, nil
}

package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/identity"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// crawlsPerPage is a page of crawls; one that is full of seeds is large enough.
const crawlsPerPage = 50

// ListCrawls returns crawls newest first, of the organizations that the caller
// may submit for.
func (s *Crawls) ListCrawls(ctx context.Context, req *ledgerv1.ListCrawlsRequest) (*ledgerv1.ListCrawlsResponse, error) {
	id, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	filter := store.CrawlFilter{State: req.State, Limit: crawlsPerPage + 1}
	if err := checkOrganization(req.OrgId); err != nil {
		return nil, err
	}
	if req.PageToken != nil {
		if filter.BeforeStarted, filter.BeforeID, err = parseCrawlToken(req.GetPageToken()); err != nil {
			return nil, rpcerr.Invalid("pageToken", "is not one that was handed out")
		}
	}
	if filter.Orgs, err = s.listedOrganizations(ctx, id, req.OrgId); err != nil {
		return nil, err
	}
	crawls, err := s.rows.ListCrawls(ctx, filter)
	if err != nil {
		return nil, err
	}
	resp := &ledgerv1.ListCrawlsResponse{}
	if len(crawls) > crawlsPerPage {
		crawls = crawls[:crawlsPerPage]
		token := crawlToken(crawls[crawlsPerPage-1])
		resp.NextPageToken = &token
	}
	for _, c := range crawls {
		resp.Crawls = append(resp.Crawls, crawlSummary(c))
	}
	return resp, nil
}

// listedOrganizations are those whose crawls the caller may list. Nobody who may
// submit for none of them learns anything.
func (s *Crawls) listedOrganizations(ctx context.Context, id identity.Identity, named *string) ([]string, error) {
	organizations := id.Organizations
	if named != nil {
		organizations = []string{*named}
	}
	may, err := s.rights.SubmitTo(ctx, id.Subject, organizations, s.now())
	if err != nil {
		return nil, fmt.Errorf("asking for whom the caller may submit: %w", err)
	}
	if len(may) == 0 {
		return nil, rpcerr.NotFound(errors.New("the caller may not submit"))
	}
	return may, nil
}

// crawlToken points behind a crawl: its start and its id.
func crawlToken(c store.Crawl) string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.StartedAt.UTC().Format(time.RFC3339Nano) + " " + c.ID.String()))
}

func parseCrawlToken(token string) (*time.Time, *uuid.UUID, error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, nil, fmt.Errorf("decoding the page token: %w", err)
	}
	started, rawID, _ := strings.Cut(string(raw), " ")
	at, err := time.Parse(time.RFC3339Nano, started)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the page token's time: %w", err)
	}
	id, err := uuid.Parse(rawID)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the page token's id: %w", err)
	}
	return &at, &id, nil
}

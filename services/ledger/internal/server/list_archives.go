package server

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/listing"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// defaultPageSize is how many archives a page holds where the caller does not
// say.
const defaultPageSize = 50

// ListArchives returns one page of what the caller may view.
func (s *Archives) ListArchives(ctx context.Context, req *ledgerv1.ListArchivesRequest) (*ledgerv1.ListArchivesResponse, error) {
	who, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	request, err := listRequest(req)
	if err != nil {
		return nil, err
	}
	page, err := s.lister.List(ctx, who, request)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	reply := &ledgerv1.ListArchivesResponse{Archives: make([]*ledgerv1.Archive, len(page.Archives))}
	for i, a := range page.Archives {
		reply.Archives[i] = archive(a)
		if request.Filter.Near != nil {
			distance := secondsBetween(a.CapturedAt, *request.Filter.Near)
			reply.Archives[i].DistanceSeconds = &distance
		}
	}
	if page.Next != nil {
		token := page.Next.Token()
		reply.NextPageToken = &token
	}
	return reply, nil
}

// listRequest reads what a caller asks for.
func listRequest(req *ledgerv1.ListArchivesRequest) (listing.Request, error) {
	request := listing.Request{Size: defaultPageSize, Before: asked(req.GetBefore()), Filter: store.ArchiveFilter{
		Host: req.Host, Label: req.Label, From: asked(req.GetFrom()), To: asked(req.GetTo()), Near: asked(req.GetAt()),
	}}
	if req.PageSize != nil {
		request.Size = int(req.GetPageSize())
	}
	if prefix, ok := strings.CutSuffix(req.GetUrl(), "*"); ok {
		request.Filter.URLPrefix = &prefix
	} else {
		request.Filter.URL = req.Url
	}
	if req.Complete != nil {
		request.Filter.Complete = completeness[req.GetComplete()]
	}
	if req.CrawlId != nil {
		crawl, err := uuid.Parse(req.GetCrawlId())
		if err != nil {
			return listing.Request{}, rpcerr.Invalid("crawlId", "must be a UUID")
		}
		request.Filter.Crawl = &crawl
	}
	if req.PageToken != nil {
		cursor, err := listing.ParseToken(req.GetPageToken())
		if err != nil {
			return listing.Request{}, rpcerr.Invalid("pageToken", err.Error())
		}
		request.After = &cursor
	}
	return request, nil
}

// asked is a time as the caller gave it: which way it is cut to what the database
// knows depends on what it bounds.
func asked(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &at
}

var completeness = map[string]store.Completeness{
	"true": store.CompletenessTrue, "false": store.CompletenessFalse, "null": store.CompletenessUnknown,
}

// secondsBetween is exact where a time.Duration would not hold the distance.
func secondsBetween(a, b time.Time) float64 {
	return math.Abs(float64(a.UnixMicro()-b.UnixMicro())) / 1e6
}

// Archives serves ArchiveService.
type Archives struct {
	ledgerv1.UnimplementedArchiveServiceServer

	archives archives
	lister   lister
	engine   checker
	now      func() time.Time
}

// NewArchives returns the service over the ledger's rows and the engine's word.
func NewArchives(archives archives, lister lister, engine checker, now func() time.Time) *Archives {
	return &Archives{archives: archives, lister: lister, engine: engine, now: now}
}

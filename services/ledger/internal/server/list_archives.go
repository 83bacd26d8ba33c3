package server

import (
	"context"
	"time"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/listing"
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
	request := listing.Request{Size: defaultPageSize}
	if req.PageSize != nil {
		request.Size = int(req.GetPageSize())
	}
	if req.GetBefore() != nil {
		before := req.GetBefore().AsTime()
		request.Before = &before
	}
	if req.PageToken != nil {
		cursor, err := listing.ParseToken(req.GetPageToken())
		if err != nil {
			return nil, rpcerr.Invalid("pageToken", err.Error())
		}
		request.After = &cursor
	}
	page, err := s.lister.List(ctx, who, request)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	reply := &ledgerv1.ListArchivesResponse{Archives: make([]*ledgerv1.Archive, len(page.Archives))}
	for i, a := range page.Archives {
		reply.Archives[i] = archive(a)
	}
	if page.Next != nil {
		token := page.Next.Token()
		reply.NextPageToken = &token
	}
	return reply, nil
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

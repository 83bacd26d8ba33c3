package server

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/fga"
	ledgerpb "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	signerpb "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
	"github.com/muniment/muniment/services/signer/internal/store"
)

// lookupsAtOnce bounds what one batch asks of the ledger at the same time.
const lookupsAtOnce = 10

// SignArchives gives out up to a hundred URLs, all recorded in one statement.
func (s *Server) SignArchives(ctx context.Context, req *signerpb.SignArchivesRequest) (*signerpb.SignArchivesResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	ids := req.GetArchiveIds()
	var found []*ledgerpb.LookupArchiveResponse
	var allowed []bool
	var both errgroup.Group
	both.Go(func() (err error) {
		found, err = s.lookupAll(ctx, ids)
		return err
	})
	both.Go(func() (err error) {
		allowed, err = s.engine.BatchCheck(ctx, s.canViewAll(who, ids))
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, fmt.Errorf("deciding: %w", err)
	}
	reply := &signerpb.SignArchivesResponse{}
	var rows []store.Issued
	for i, id := range ids {
		signed := &signerpb.SignedArchive{ArchiveId: id}
		reply.Archives = append(reply.Archives, signed)
		if why := reason(found[i], allowed[i]); why != "" {
			s.refuse(ctx, who, id, why)
			continue
		}
		url, row, err := s.sign(found[i])
		if err != nil {
			return nil, err
		}
		expiresIn := seconds(url)
		signed.Url, signed.ExpiresIn = &url.Text, &expiresIn
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return reply, nil
	}
	if err := s.commit(ctx, who, rows); err != nil {
		return nil, err
	}
	return reply, nil
}

// canViewAll asks about every archive at one and the same time.
func (s *Server) canViewAll(who caller, ids []string) []fga.Query {
	at := s.now()
	queries := make([]fga.Query, 0, len(ids))
	for _, id := range ids {
		queries = append(queries, s.canView(who, id, at))
	}
	return queries
}

func (s *Server) lookupAll(ctx context.Context, ids []string) ([]*ledgerpb.LookupArchiveResponse, error) {
	found := make([]*ledgerpb.LookupArchiveResponse, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookupsAtOnce)
	for i, id := range ids {
		group.Go(func() (err error) {
			found[i], err = s.lookup(ctx, id)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return found, nil
}

package server

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// GetAsOf returns what a feed held, per request, as of its last read at or
// before a moment. What is too much for one reply is refused; one request asks
// for less.
func (s *Server) GetAsOf(ctx context.Context, req *feedarchiverv1.GetAsOfRequest) (*feedarchiverv1.GetAsOfResponse, error) {
	if err := errors.Join(named("source", req.GetSource()), named("request", req.GetRequest())); err != nil {
		return nil, err
	}
	polls, err := s.store.LastPolls(ctx, req.GetSource(), req.GetAt().AsTime(), req.Request)
	if err != nil {
		return nil, err
	}
	var size replySize
	reply := &feedarchiverv1.GetAsOfResponse{Source: req.GetSource(), At: req.GetAt(), Reads: make([]*feedarchiverv1.AsOfRead, 0, len(polls))}
	for _, p := range polls {
		items, err := s.store.HeldBy(ctx, p.ID, false)
		if err != nil {
			return nil, err
		}
		read := &feedarchiverv1.AsOfRead{
			Request: p.Request,
			Poll: &feedarchiverv1.Poll{
				FetchedAt: timestamppb.New(p.FetchedAt), ReceivedAt: timestamppb.New(p.ReceivedAt),
				HttpStatus: p.HTTPStatus, ItemsSeen: p.ItemsSeen, ItemsNew: p.ItemsNew,
			},
			Items: heldItems(items),
		}
		if err := size.add(read, "what the feed held at that moment"); err != nil {
			return nil, err
		}
		reply.Reads = append(reply.Reads, read)
	}
	return reply, nil
}

func heldItems(items []store.HeldItem) []*feedarchiverv1.HeldItem {
	all := make([]*feedarchiverv1.HeldItem, 0, len(items))
	for _, i := range items {
		all = append(all, &feedarchiverv1.HeldItem{Hash: i.Hash, ProductId: i.ProductID, ItemKey: i.ItemKey, IssuedAt: stamp(i.IssuedAt)})
	}
	return all
}

package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// ListPolls returns the poll ledger of one UTC day.
func (s *Server) ListPolls(ctx context.Context, req *feedarchiverv1.ListPollsRequest) (*feedarchiverv1.ListPollsResponse, error) {
	if err := named("source", req.GetSource()); err != nil {
		return nil, err
	}
	day, err := time.Parse(time.DateOnly, req.GetDay())
	if err != nil {
		return nil, rpcerr.Invalid("day", "is not a day of the calendar")
	}
	var after *store.Position
	if req.PageToken != nil {
		parts, err := parsePageToken(req.GetPageToken(), 2)
		if err != nil {
			return nil, err
		}
		after = &store.Position{FetchedAt: time.UnixMicro(parts[0]).UTC(), ID: parts[1]}
	}
	polls, more, err := s.store.Polls(ctx, req.GetSource(), day, day.AddDate(0, 0, 1), after, pageSize(req.PageSize))
	if err != nil {
		return nil, err
	}
	reply := &feedarchiverv1.ListPollsResponse{Polls: make([]*feedarchiverv1.DayPoll, 0, len(polls))}
	for _, p := range polls {
		reply.Polls = append(reply.Polls, &feedarchiverv1.DayPoll{
			Request: p.Request, FetchedAt: timestamppb.New(p.FetchedAt), ReceivedAt: timestamppb.New(p.ReceivedAt),
			HttpStatus: p.HttpStatus, ItemsSeen: p.ItemsSeen, ItemsNew: p.ItemsNew,
			Date: p.HttpDate, Age: p.HttpAge, LastModified: p.HttpLastModified,
		})
	}
	if more {
		last := polls[len(polls)-1]
		token := pageToken(last.FetchedAt.UnixMicro(), last.ID)
		reply.NextPageToken = &token
	}
	return reply, nil
}

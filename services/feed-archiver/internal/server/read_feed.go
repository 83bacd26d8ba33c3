package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/feed-archiver/internal/poll"
)

// waitForTurn is how long ReadFeed waits for a poller that reads the source
// just now.
const waitForTurn = 20 * time.Second

// ReadFeed reads a source now.
func (s *Server) ReadFeed(ctx context.Context, req *feedarchiverv1.ReadFeedRequest) (*feedarchiverv1.ReadFeedResponse, error) {
	outcomes, err := s.readFeed(ctx, req)
	switch {
	case errors.Is(err, poll.ErrUnknown):
		return nil, rpcerr.NotFound(err)
	case errors.Is(err, poll.ErrReading):
		return nil, status.Error(codes.FailedPrecondition, "the source is being read just now; ask again")
	case err != nil:
		return nil, err
	}
	reply := &feedarchiverv1.ReadFeedResponse{Reads: make([]*feedarchiverv1.FeedRead, 0, len(outcomes))}
	for _, o := range outcomes {
		read := &feedarchiverv1.FeedRead{Request: o.Request, HttpStatus: int32(o.HTTPStatus), ItemsSeen: o.Seen, ItemsNew: o.New}
		if o.Failure != "" {
			read.Failure = &o.Failure
		}
		reply.Reads = append(reply.Reads, read)
	}
	return reply, nil
}

func (s *Server) readFeed(ctx context.Context, req *feedarchiverv1.ReadFeedRequest) ([]poll.Outcome, error) {
	if req.GetDryRun() {
		return s.poller.DryRun(ctx, req.GetSource())
	}
	turn, cancel := context.WithTimeout(ctx, waitForTurn)
	defer cancel()
	for {
		outcomes, err := s.poller.ReadNow(ctx, req.GetSource())
		if !errors.Is(err, poll.ErrReading) {
			return outcomes, err
		}
		select {
		case <-turn.Done():
			return nil, err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

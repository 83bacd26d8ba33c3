package server

import (
	"context"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
)

// ListFeeds lists every source that this archiver polls, with its state.
func (s *Server) ListFeeds(ctx context.Context, _ *feedarchiverv1.ListFeedsRequest) (*feedarchiverv1.ListFeedsResponse, error) {
	states, err := s.poller.States(ctx)
	if err != nil {
		return nil, err
	}
	reply := &feedarchiverv1.ListFeedsResponse{Feeds: make([]*feedarchiverv1.Feed, 0, len(states))}
	for _, state := range states {
		feed := &feedarchiverv1.Feed{
			Source: state.Source, IntervalSeconds: int64(state.Interval.Seconds()),
			NextReadAt: stamp(state.NextReadAt), Reading: state.Reading,
			LastReadAt: stamp(state.LastReadAt), LastFailureAt: stamp(state.LastFailureAt),
			Reads: state.Reads, ItemsSeen: state.Seen, ItemsNew: state.New, Restamps: state.Restamps(),
		}
		if state.Follows != "" {
			feed.Follows = &state.Follows
		}
		if state.LastFailure != "" {
			feed.LastFailure = &state.LastFailure
		}
		reply.Feeds = append(reply.Feeds, feed)
	}
	return reply, nil
}

package server

import (
	"context"

	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
)

// Stats counts the rows that wait, and those set aside.
func (s *Server) Stats(ctx context.Context, _ *outboxrelayv1.StatsRequest) (*outboxrelayv1.StatsResponse, error) {
	stats, err := s.outbox.Stats(ctx)
	if err != nil {
		return nil, err
	}
	return &outboxrelayv1.StatsResponse{Waiting: stats.Waiting, Dead: stats.Dead, OldestCreatedAt: timestamp(stats.Oldest)}, nil
}

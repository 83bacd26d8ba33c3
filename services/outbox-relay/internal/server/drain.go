package server

import (
	"context"
	"time"

	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
)

const (
	defaultDrainWait = 10 * time.Second
	// drainLook is how often the queue is counted meanwhile.
	drainLook = 200 * time.Millisecond
)

// Drain wakes this replica's loops and waits until nothing waits. That the time
// ran out is an answer and no error: it says what is left.
func (s *Server) Drain(ctx context.Context, req *outboxrelayv1.DrainRequest) (*outboxrelayv1.DrainResponse, error) {
	wait := defaultDrainWait
	if req.WaitSeconds != nil {
		wait = time.Duration(req.GetWaitSeconds()) * time.Second
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	look := time.NewTicker(drainLook)
	defer look.Stop()
	s.relay.Wake()
	for over := false; ; {
		stats, err := s.outbox.Stats(ctx)
		if err != nil {
			return nil, err
		}
		if stats.Waiting == 0 || over {
			return &outboxrelayv1.DrainResponse{Drained: stats.Waiting == 0, Waiting: stats.Waiting, Dead: stats.Dead}, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout.C:
			over = true
		case <-look.C:
		}
	}
}

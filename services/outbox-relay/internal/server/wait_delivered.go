package server

import (
	"context"
	"time"

	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
)

// deliveredLook is how often the queue is asked meanwhile: a row takes some tens
// of milliseconds from its commit to the engine.
const deliveredLook = 25 * time.Millisecond

// WaitDelivered waits until no undelivered row names one of the objects. That
// the time ran out is an answer and no error.
//
// It asks the table and not the engine, which cannot tell a tuple that is gone
// from one that is still to come: a share and its revocation, both queued, look
// like a revocation that has arrived.
func (s *Server) WaitDelivered(ctx context.Context, req *outboxrelayv1.WaitDeliveredRequest) (*outboxrelayv1.WaitDeliveredResponse, error) {
	timeout := time.NewTimer(time.Duration(req.GetWaitSeconds()) * time.Second)
	defer timeout.Stop()
	look := time.NewTicker(deliveredLook)
	defer look.Stop()
	for over := req.GetWaitSeconds() == 0; ; {
		waits, err := s.outbox.Undelivered(ctx, req.GetObjects())
		if err != nil {
			return nil, err
		}
		if !waits || over {
			return &outboxrelayv1.WaitDeliveredResponse{Delivered: !waits}, nil
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

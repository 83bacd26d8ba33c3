package server

import (
	"context"

	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
)

// Retry queues rows again that were set aside. Ids of other rows change nothing.
func (s *Server) Retry(ctx context.Context, req *outboxrelayv1.RetryRequest) (*outboxrelayv1.RetryResponse, error) {
	var retried int64
	var err error
	if req.GetAll() {
		retried, err = s.outbox.RetryAll(ctx)
	} else {
		retried, err = s.outbox.Retry(ctx, req.GetIds())
	}
	if err != nil {
		return nil, err
	}
	s.relay.Wake()
	return &outboxrelayv1.RetryResponse{Retried: retried}, nil
}

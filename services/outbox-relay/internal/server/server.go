// Package server is the relay's gRPC surface: how far behind it is, what was set
// aside and a way back. It delivers nothing itself.
package server

import (
	"context"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

// outbox is the queue; store.Store is it.
type outbox interface {
	Stats(ctx context.Context) (store.Stats, error)
	ListDead(ctx context.Context, afterID int64, limit int) ([]store.Dead, error)
	Retry(ctx context.Context, ids []int64) (int64, error)
	RetryAll(ctx context.Context) (int64, error)
	Discard(ctx context.Context, d store.Discard) error
	Undelivered(ctx context.Context, keys []string) (bool, error)
}

// waker makes the loops look at once; relay.Relay is it.
type waker interface {
	Wake()
}

// Server implements muniment.outboxrelay.v1.OutboxService.
type Server struct {
	outboxrelayv1.UnimplementedOutboxServiceServer
	outbox outbox
	relay  waker
	log    *zap.Logger
}

// New returns a server over the queue and this replica's loops.
func New(queue outbox, relay waker, log *zap.Logger) *Server {
	return &Server{outbox: queue, relay: relay, log: log}
}

// timestamp leaves an unknown time absent.
func timestamp(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"

	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/grpcx"
	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

// Discard gives up a row that was set aside. Any other row is refused: what
// still waits will be delivered.
func (s *Server) Discard(ctx context.Context, req *outboxrelayv1.DiscardRequest) (*outboxrelayv1.DiscardResponse, error) {
	for field, text := range map[string]string{"person": req.GetPerson(), "reason": req.GetReason()} {
		if strings.TrimSpace(text) == "" || strings.ContainsFunc(text, unicode.IsControl) {
			return nil, rpcerr.Invalid(field, "must be one line of text")
		}
	}
	// A certificate may carry one name twice, as URI and as DNS name.
	names := slices.Compact(slices.Sorted(slices.Values(grpcx.Peers(ctx))))
	d := store.Discard{
		ID: req.GetId(), Certificate: strings.Join(names, ","), Person: req.GetPerson(), Reason: req.GetReason(),
	}
	err := s.outbox.Discard(ctx, d)
	if errors.Is(err, store.ErrNotDead) {
		return nil, rpcerr.FailedPrecondition("the row is not set aside", err)
	}
	if err != nil {
		return nil, err
	}
	telemetry.Log(ctx, s.log).Warn("row discarded; what it held never reached the engine",
		zap.Int64("row", d.ID), zap.String("certificate", d.Certificate), zap.String("person", d.Person), zap.String("reason", d.Reason))
	s.relay.Wake()
	return &outboxrelayv1.DiscardResponse{}, nil
}

// Package server is the reconciler's gRPC surface: its loop, made operable.
package server

import (
	"context"

	reconcilerv1 "github.com/muniment/muniment/pkg/pb/muniment/reconciler/v1"
	"github.com/muniment/muniment/services/reconciler/internal/reconcile"
)

// Server implements muniment.reconciler.v1.ReconcilerService.
type Server struct {
	reconcilerv1.UnimplementedReconcilerServiceServer
	loop *reconcile.Reconciler
}

// New returns a server over the loop.
func New(loop *reconcile.Reconciler) *Server { return &Server{loop: loop} }

// RunOnce walks all present holes now, those not due yet included.
func (s *Server) RunOnce(ctx context.Context, _ *reconcilerv1.RunOnceRequest) (*reconcilerv1.RunOnceResponse, error) {
	n, err := s.loop.Pass(ctx, true)
	if err != nil {
		return nil, err
	}
	return &reconcilerv1.RunOnceResponse{Seen: n.Seen, Admitted: n.Admitted, Never: n.Never, NotYet: n.NotYet}, nil
}

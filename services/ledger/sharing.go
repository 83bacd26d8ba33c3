package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/objstore"
	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
	"github.com/muniment/muniment/services/ledger/internal/sharing"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// sharingSide is sharing and deleting with what it needs to itself: the loop
// that removes objects, and the connection to the relay.
type sharingSide struct {
	*sharing.Service
	remover *sharing.Remover
	conn    *grpc.ClientConn
}

func (s *sharingSide) close() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
}

func newSharing(cfg settings, rows *store.Store, engine *fga.Client, reg prometheus.Registerer, log *zap.Logger) (*sharingSide, error) {
	s3, err := objstore.NewS3(cfg.Store)
	if err != nil {
		return nil, err
	}
	s := &sharingSide{remover: sharing.NewRemover(rows, s3, reg, log)}
	delivery := sharing.NewDelivery(nil, log)
	if cfg.RelayAddress != "" {
		if s.conn, err = grpcx.Dial(cfg.RelayAddress, "outbox-relay", cfg.tls()); err != nil {
			return nil, err
		}
		delivery = sharing.NewDelivery(outboxrelayv1.NewOutboxServiceClient(s.conn), log)
	}
	s.Service = sharing.New(rows, engine, delivery, s.remover.Wake, log, time.Now)
	return s, nil
}

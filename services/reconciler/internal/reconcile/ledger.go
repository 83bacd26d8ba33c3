package reconcile

import (
	"context"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
)

// Ledger asks the ledger's registry over gRPC.
type Ledger struct {
	registry ledgerv1.RegistryServiceClient
}

// NewLedger returns a client over conn.
func NewLedger(conn grpc.ClientConnInterface) *Ledger {
	return &Ledger{registry: ledgerv1.NewRegistryServiceClient(conn)}
}

// ListHoles returns the holes after the given task id, or from the beginning.
func (l *Ledger) ListHoles(ctx context.Context, after *uuid.UUID, pageSize int32) ([]*ledgerv1.Hole, error) {
	ctx, cancel := context.WithTimeout(ctx, admitTimeout)
	defer cancel()
	req := &ledgerv1.ListHolesRequest{PageSize: pageSize}
	if after != nil {
		id := after.String()
		req.AfterTaskId = &id
	}
	reply, err := l.registry.ListHoles(ctx, req)
	if err != nil {
		return nil, err
	}
	return reply.GetHoles(), nil
}

// AdmitManifest hands a manifest's bytes to the ledger.
func (l *Ledger) AdmitManifest(ctx context.Context, task uuid.UUID, manifest []byte) (*ledgerv1.AdmitManifestResponse, error) {
	return l.registry.AdmitManifest(ctx, &ledgerv1.AdmitManifestRequest{TaskId: task.String(), Manifest: manifest})
}

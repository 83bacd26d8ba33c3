package server

import (
	"context"

	"github.com/google/uuid"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/services/ledger/internal/admission"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// registryRows is what the methods ask of the ledger's tables.
type registryRows interface {
	ArchiveLocation(ctx context.Context, id uuid.UUID) (store.ArchiveLocation, error)
	CloseHoles(ctx context.Context, tasks []uuid.UUID) (int64, error)
	Holes(ctx context.Context, after *uuid.UUID, limit int32) ([]store.Hole, error)
}

// admitter admits the capture of one manifest.
type admitter interface {
	Manifest(ctx context.Context, task uuid.UUID, data []byte) (admission.Result, error)
}

// Registry serves RegistryService: services only, told apart by certificate.
type Registry struct {
	ledgerv1.UnimplementedRegistryServiceServer
	rows     registryRows
	admitter admitter
	// bucket is where manifests are.
	bucket string
}

// NewRegistry returns the service.
func NewRegistry(rows registryRows, a admitter, bucket string) *Registry {
	return &Registry{rows: rows, admitter: a, bucket: bucket}
}

package crawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/muniment/muniment/services/ledger/internal/manifest"
	"github.com/muniment/muniment/services/ledger/internal/sink"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// artifactRows is what the sink's questions need of the ledger's tables.
type artifactRows interface {
	Admitted(ctx context.Context, bucket, key string) (bool, error)
	Crawl(ctx context.Context, id uuid.UUID) (store.Crawl, error)
	RecordSubmissions(ctx context.Context, crawl store.Crawl, submissions []store.NewSubmission) error
}

// Artifacts answers the sink's questions about crawls.
type Artifacts struct {
	rows    artifactRows
	service *Service
}

// NewArtifacts returns the sink's view of crawls.
func NewArtifacts(rows artifactRows, service *Service) *Artifacts {
	return &Artifacts{rows: rows, service: service}
}

// SinkPrefix returns a crawl's folder, or sink.ErrNoCrawl.
func (a *Artifacts) SinkPrefix(ctx context.Context, crawl uuid.UUID) (string, error) {
	c, err := a.rows.Crawl(ctx, crawl)
	if errors.Is(err, store.ErrNoCrawl) || (err == nil && c.SinkPrefix == nil) {
		return "", sink.ErrNoCrawl
	}
	if err != nil {
		return "", err
	}
	return *c.SinkPrefix, nil
}

// Admitted says whether an archive is admitted under a key.
func (a *Artifacts) Admitted(ctx context.Context, bucket, key string) (bool, error) {
	return a.rows.Admitted(ctx, bucket, key)
}

// RecordManifest records the submission that an arrived manifest describes, so
// that a level report that never comes loses nothing.
func (a *Artifacts) RecordManifest(ctx context.Context, crawl uuid.UUID, key string, data []byte) error {
	m, err := manifest.Parse(data)
	if err != nil {
		return fmt.Errorf("%w: %w", sink.ErrUnreadable, err)
	}
	c, err := a.rows.Crawl(ctx, crawl)
	if err != nil {
		return err
	}
	sub := store.NewSubmission{TaskID: m.TaskID, CorrelationID: c.ID.String(), SubmittedAt: a.service.clock(), ManifestKey: &key}
	if m.CorrelationID != nil {
		sub.CorrelationID = *m.CorrelationID
	}
	return a.rows.RecordSubmissions(ctx, c, []store.NewSubmission{sub})
}

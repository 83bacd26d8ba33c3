// Package store keeps the record of the URLs that were given out. Its role can
// add rows and do nothing else.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/services/signer/internal/store/db"
)

// Schema and SchemaVersion are what this service needs of the database.
const (
	Schema        = "signer"
	SchemaVersion = 1
)

// insertTimeout bounds the one statement that a signing waits for.
const insertTimeout = 3 * time.Second

// Store is safe for concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	queries *db.Queries
}

// New uses a pool of the role muniment_signer.
func New(pool *pgxpool.Pool) *Store {
	return &Store{pool: pool, queries: db.New(pool)}
}

// Call is who asked for URLs, and how.
type Call struct {
	Subject       string
	Organizations []string
	// Caller is the name in the certificate through which the call came.
	Caller    string
	RequestID string
}

// Issued is one URL, without the URL.
type Issued struct {
	ArchiveID uuid.UUID
	// VersionID is empty where the URL pins none.
	VersionID           string
	IssuedAt, ExpiresAt time.Time
}

// Record commits one row for each URL, all or none. A URL may leave only after
// it returned nil.
func (s *Store) Record(ctx context.Context, call Call, issued []Issued) error {
	params := db.InsertIssuedURLsParams{
		Subject: call.Subject, Organizations: call.Organizations, Caller: call.Caller, RequestID: call.RequestID,
	}
	if params.Organizations == nil {
		params.Organizations = []string{}
	}
	for _, i := range issued {
		params.ArchiveIds = append(params.ArchiveIds, i.ArchiveID)
		params.IssuedAt = append(params.IssuedAt, i.IssuedAt)
		params.ExpiresAt = append(params.ExpiresAt, i.ExpiresAt)
		params.VersionIds = append(params.VersionIds, i.VersionID)
	}
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	err := pg.Retry(ctx, func(ctx context.Context) error { return s.queries.InsertIssuedURLs(ctx, params) })
	if err != nil {
		return fmt.Errorf("recording the issued URLs: %w", err)
	}
	return nil
}

// Check is the database's part of the service's health.
func (s *Store) Check(ctx context.Context) error {
	return pg.RequireSchema(ctx, s.pool, Schema, SchemaVersion)
}

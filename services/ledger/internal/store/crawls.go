package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// Crawl is one row of crawls.
type Crawl = db.Crawl

// Failure is a page that could not be captured.
type Failure = db.ListFailuresRow

// The states of a crawl.
const (
	StateRunning   = "running"
	StateSucceeded = "succeeded"
	StateFailed    = "failed"
)

// The reasons for which a crawl ends.
const (
	StopCompleted = "completed"
	StopMaxDepth  = "max_depth"
	StopMaxPages  = "max_pages"
	StopStopped   = "stopped"
	StopFailed    = "failed"
)

// RunningError says that another crawl is in progress.
type RunningError struct {
	ID        uuid.UUID
	OrgID     string
	StartedAt time.Time
}

func (e *RunningError) Error() string { return "a crawl is already in progress" }

// StartCrawl writes a crawl, its seeds and its first level, still to be
// dispatched, or nothing and a *RunningError.
func (s *Store) StartCrawl(ctx context.Context, c Crawl, seeds []Page, deadline time.Time) error {
	err := s.bulk(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		err := q.InsertCrawl(ctx, db.InsertCrawlParams{
			ID: c.ID, OrgID: c.OrgID, SubmittedBy: c.SubmittedBy, Seeds: c.Seeds, Scope: c.Scope, ScopeKeys: c.ScopeKeys,
			MaxDepth: c.MaxDepth, MaxPages: c.MaxPages, PerHostDelayMs: c.PerHostDelayMs, HostParallelism: c.HostParallelism,
			SinkPrefix: c.SinkPrefix, LimitHit: c.LimitHit, StartedAt: c.StartedAt,
		})
		if err != nil {
			return fmt.Errorf("inserting the crawl: %w", err)
		}
		return insertLevel(ctx, tx, q, c.ID, 0, seeds, deadline, progress{scopeKeys: c.ScopeKeys})
	})
	if pg.IsUniqueViolation(err, "crawls_one_running_idx") {
		return s.runningCrawl(ctx)
	}
	return err
}

// runningCrawl names the crawl that stood in the way. Should it have ended since,
// the caller may just come again.
func (s *Store) runningCrawl(ctx context.Context) error {
	var running db.GetRunningCrawlRow
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		running, err = q.GetRunningCrawl(ctx)
		return err
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("looking up the running crawl: %w", err)
	}
	return &RunningError{ID: running.ID, OrgID: running.OrgID, StartedAt: running.StartedAt}
}

// Crawl returns one crawl, or ErrNoCrawl.
func (s *Store) Crawl(ctx context.Context, id uuid.UUID) (Crawl, error) {
	var c Crawl
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		c, err = q.GetCrawl(ctx, id)
		return err
	})
	if err != nil {
		return Crawl{}, fmt.Errorf("reading the crawl: %w", orElse(err, ErrNoCrawl))
	}
	return c, nil
}

// Failures returns a crawl's latest n failures, newest first.
func (s *Store) Failures(ctx context.Context, id uuid.UUID, n int32) ([]Failure, error) {
	var failures []Failure
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		failures, err = q.ListFailures(ctx, db.ListFailuresParams{CrawlID: id, Limit: n})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the crawl's failures: %w", err)
	}
	return failures, nil
}

// CrawlFilter selects crawls; the optional ones are nil where they do not apply.
type CrawlFilter struct {
	Orgs  []string
	State *string
	// BeforeStarted and BeforeID are the last crawl of the page before.
	BeforeStarted *time.Time
	BeforeID      *uuid.UUID
	Limit         int32
}

// ListCrawls returns crawls newest first.
func (s *Store) ListCrawls(ctx context.Context, f CrawlFilter) ([]Crawl, error) {
	var crawls []Crawl
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		crawls, err = q.ListCrawls(ctx, db.ListCrawlsParams{
			Orgs: f.Orgs, State: f.State, BeforeStarted: f.BeforeStarted, BeforeID: f.BeforeID, PageSize: f.Limit,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing crawls: %w", err)
	}
	return crawls, nil
}

// CloseCrawl closes a running crawl as failed; false where it was not running.
func (s *Store) CloseCrawl(ctx context.Context, id uuid.UUID, stopReason string, reason *string, now time.Time) (bool, error) {
	var n int64
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		n, err = q.CloseCrawl(ctx, db.CloseCrawlParams{ID: id, StopReason: stopReason, Error: reason, Now: now})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("closing the crawl: %w", err)
	}
	return n > 0, nil
}

// CloseOverdue closes the crawls whose level was not reported in time and
// returns them. Of several replicas that ask at once, one gets each crawl.
func (s *Store) CloseOverdue(ctx context.Context, now time.Time) ([]uuid.UUID, error) {
	var closed []uuid.UUID
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		closed, err = q.CloseOverdueCrawls(ctx, now)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("closing overdue crawls: %w", err)
	}
	return closed, nil
}

// EnabledTargets returns up to limit of an organization's enabled targets.
func (s *Store) EnabledTargets(ctx context.Context, org string, limit int32) ([]string, error) {
	var urls []string
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		urls, err = q.ListEnabledTargets(ctx, db.ListEnabledTargetsParams{OrgID: org, Limit: limit})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing enabled targets: %w", err)
	}
	return urls, nil
}

package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// NewSubmission is a task to record: one of ManifestKey and ManifestError is set.
type NewSubmission struct {
	TaskID        uuid.UUID
	CorrelationID string
	SubmittedAt   time.Time
	ManifestKey   *string
	ManifestError *string
}

// Submission is a recorded task: whose it is, and where its manifest is. The
// crawl's sink prefix stands beside it, where there is one.
type Submission = db.GetSubmissionRow

// recordSubmissions writes the tasks that are new, and a hole for each of them
// that has a manifest. A task that is known stays as it was first recorded. The
// order by task id keeps two reports of one level from waiting for each other.
const recordSubmissions = `
WITH recorded AS (
    INSERT INTO capture_submissions (task_id, correlation_id, org_id, submitted_by, submitted_at, manifest_key, manifest_error, crawl_id)
    SELECT s.task_id, s.correlation_id, $2, $3, s.submitted_at, s.manifest_key, s.manifest_error, $1
    FROM unnest($4::uuid[], $5::text[], $6::timestamptz[], $7::text[], $8::text[])
        AS s (task_id, correlation_id, submitted_at, manifest_key, manifest_error)
    ORDER BY s.task_id
    ON CONFLICT (task_id) DO NOTHING
    RETURNING task_id, manifest_key
)
INSERT INTO capture_holes (task_id)
SELECT task_id FROM recorded WHERE manifest_key IS NOT NULL
ON CONFLICT (task_id) DO NOTHING`

// RecordSubmissions records tasks for the crawl's organization and requester.
func (s *Store) RecordSubmissions(ctx context.Context, crawl Crawl, submissions []NewSubmission) error {
	if len(submissions) == 0 {
		return nil
	}
	n := len(submissions)
	tasks, correlations, times := make([]uuid.UUID, n), make([]string, n), make([]time.Time, n)
	keys, errs := make([]*string, n), make([]*string, n)
	for i, sub := range submissions {
		tasks[i], correlations[i], times[i] = sub.TaskID, sub.CorrelationID, sub.SubmittedAt
		keys[i], errs[i] = sub.ManifestKey, sub.ManifestError
	}
	err := s.statement(ctx, func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, recordSubmissions, crawl.ID, crawl.OrgID, crawl.SubmittedBy, tasks, correlations, times, keys, errs)
		return err
	})
	if err != nil {
		return fmt.Errorf("recording submissions: %w", err)
	}
	return nil
}

// Submission returns one recorded task, or ErrNoSubmission.
func (s *Store) Submission(ctx context.Context, task uuid.UUID) (Submission, error) {
	var sub Submission
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		sub, err = q.GetSubmission(ctx, task)
		return err
	})
	if err != nil {
		return Submission{}, fmt.Errorf("reading the submission: %w", orElse(err, ErrNoSubmission))
	}
	return sub, nil
}

// OpenSubmissions returns those of the tasks that still lack an archive.
func (s *Store) OpenSubmissions(ctx context.Context, tasks []uuid.UUID) ([]Submission, error) {
	var open []Submission
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) error {
		rows, err := q.ListOpenSubmissions(ctx, tasks)
		open = make([]Submission, len(rows))
		for i, row := range rows {
			open[i] = Submission(row)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing open submissions: %w", err)
	}
	return open, nil
}

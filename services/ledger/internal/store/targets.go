package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// Target is a page that an organization wants captured regularly.
type Target = db.GetTargetRow

// NewTarget is one to add.
type NewTarget struct {
	URL    string
	Labels []string
}

// addTargets passes over those that are there. They are inserted in the order of
// their URLs, so that two callers with the same ones cannot wait for each other.
const addTargets = `
INSERT INTO capture_targets (org_id, url, labels, created_at, updated_at)
SELECT $1, t.url, ARRAY(SELECT jsonb_array_elements_text(t.labels)), $2, $2
FROM unnest($3::text[], $4::jsonb[]) AS t (url, labels)
ORDER BY t.url COLLATE "C"
ON CONFLICT (org_id, url_hash) DO NOTHING`

// AddTargets adds an organization's targets and returns how many were new.
func (s *Store) AddTargets(ctx context.Context, org string, targets []NewTarget, now time.Time) (int64, error) {
	urls, labels := make([]string, len(targets)), make([]string, len(targets))
	for i, t := range targets {
		list, err := json.Marshal(append([]string{}, t.Labels...))
		if err != nil {
			return 0, fmt.Errorf("encoding labels: %w", err)
		}
		urls[i], labels[i] = t.URL, string(list)
	}
	var added int64
	err := s.bulk(ctx, func(ctx context.Context, tx pgx.Tx, _ *db.Queries) error {
		tag, err := tx.Exec(ctx, addTargets, org, now, urls, labels)
		added = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("adding targets: %w", err)
	}
	return added, nil
}

// Targets returns up to limit of an organization's targets with ids above after.
func (s *Store) Targets(ctx context.Context, org string, after int64, limit int32) ([]Target, error) {
	var targets []Target
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) error {
		rows, err := q.ListTargets(ctx, db.ListTargetsParams{OrgID: org, After: after, PageSize: limit})
		targets = make([]Target, len(rows))
		for i, row := range rows {
			targets[i] = Target(row)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing targets: %w", err)
	}
	return targets, nil
}

// Target returns one target, or ErrNoTarget.
func (s *Store) Target(ctx context.Context, id int64) (Target, error) {
	var t Target
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		t, err = q.GetTarget(ctx, id)
		return err
	})
	if err != nil {
		return Target{}, fmt.Errorf("reading the target: %w", orElse(err, ErrNoTarget))
	}
	return t, nil
}

// SetTargetEnabled says whether crawls from targets take this one, or returns
// ErrNoTarget.
func (s *Store) SetTargetEnabled(ctx context.Context, id int64, enabled bool, now time.Time) (Target, error) {
	var t Target
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) error {
		row, err := q.SetTargetEnabled(ctx, db.SetTargetEnabledParams{ID: id, Enabled: enabled, Now: now})
		t = Target(row)
		return err
	})
	if err != nil {
		return Target{}, fmt.Errorf("changing the target: %w", orElse(err, ErrNoTarget))
	}
	return t, nil
}

// RemoveTarget forgets a target; false where it is gone already.
func (s *Store) RemoveTarget(ctx context.Context, id int64) (bool, error) {
	var n int64
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		n, err = q.DeleteTarget(ctx, id)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("removing the target: %w", err)
	}
	return n > 0, nil
}

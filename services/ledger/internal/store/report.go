package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// PageResult is what a level brought for one page.
type PageResult struct {
	URL string
	// State is captured, failed or skipped.
	State       string
	Reason      *string
	TaskID      *uuid.UUID
	FinalURL    *string
	SubmittedAt *time.Time
	FinishedAt  *time.Time
}

// LevelReport is what a level brought, and what may come after it.
type LevelReport struct {
	CrawlID uuid.UUID
	Depth   int32
	Results []PageResult
	// ScopeKeys are the crawl's, extended by where redirected seeds arrived.
	ScopeKeys []string
	// Next are the pages found that are new, at most as many as the budget lets
	// in; LimitHit is the limit that left something out.
	Next     []Page
	LimitHit *string
	Deadline time.Time
	Now      time.Time
}

// NextPage is a page of the level that follows.
type NextPage = db.ListNextPagesRow

// LevelReply is the stored answer to a level's report.
type LevelReply struct {
	Next       []NextPage
	StopReason *string
}

// reportPages writes the results to the level's pages, each once, and says what
// became of them.
const reportPages = `
UPDATE crawl_pages p
SET state = r.state, reason = r.reason, task_id = r.task_id, final_url = r.final_url,
    submitted_at = r.submitted_at, finished_at = r.finished_at, reported_at = $4
FROM unnest($3::text[], $5::text[], $6::text[], $7::uuid[], $8::text[], $9::timestamptz[], $10::timestamptz[])
    AS r (url, state, reason, task_id, final_url, submitted_at, finished_at)
WHERE p.crawl_id = $1 AND p.depth = $2 AND p.state = 'queued'
    AND p.url_hash = sha256(convert_to(r.url, 'UTF8'))
RETURNING p.state`

// FinishLevel writes a level's results and what follows from them, once: whoever
// reports the same level again, or at the same moment, gets the stored reply.
// The lock on the crawl's row puts reports, and nothing else, in line.
func (s *Store) FinishLevel(ctx context.Context, r LevelReport) (LevelReply, error) {
	var reply LevelReply
	err := s.bulk(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		crawl, err := q.LockCrawl(ctx, r.CrawlID)
		if err != nil {
			return fmt.Errorf("locking the crawl: %w", orElse(err, ErrNoCrawl))
		}
		level, err := q.GetLevel(ctx, db.GetLevelParams{CrawlID: r.CrawlID, Depth: r.Depth})
		if err != nil {
			return fmt.Errorf("reading the level: %w", orElse(err, ErrNoLevel))
		}
		if level.RepliedAt == nil {
			if level.StopReason, err = finishLevel(ctx, tx, q, crawl, r); err != nil {
				return err
			}
		}
		reply, err = readReply(ctx, q, level)
		return err
	})
	return reply, err
}

// StoredReply returns the reply of a level that was reported, nil where it was not.
func (s *Store) StoredReply(ctx context.Context, level Level) (*LevelReply, error) {
	if level.RepliedAt == nil {
		return nil, nil //nolint:nilnil // no reply yet is not an error
	}
	var reply LevelReply
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		reply, err = readReply(ctx, q, level)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &reply, nil
}

func readReply(ctx context.Context, q *db.Queries, level Level) (LevelReply, error) {
	next, err := q.ListNextPages(ctx, db.ListNextPagesParams{CrawlID: level.CrawlID, Depth: level.Depth + 1})
	if err != nil {
		return LevelReply{}, fmt.Errorf("reading the next level: %w", err)
	}
	return LevelReply{Next: next, StopReason: level.StopReason}, nil
}

// finishLevel is the first report of a level, with the crawl's row locked. It
// returns the reply's stop reason.
func finishLevel(ctx context.Context, tx pgx.Tx, q *db.Queries, crawl Crawl, r LevelReport) (*string, error) {
	p := progress{scopeKeys: r.ScopeKeys, limitHit: r.LimitHit}
	var err error
	if p.captured, err = writeResults(ctx, tx, r); err != nil {
		return nil, err
	}
	next := r.Next
	if crawl.State != StateRunning {
		// What is out is recorded; nothing new is taken.
		next, p.limitHit = nil, nil
	}
	if err := insertLevel(ctx, tx, q, crawl.ID, r.Depth+1, next, r.Deadline, p); err != nil {
		return nil, err
	}
	stopReason := crawl.StopReason
	if crawl.State == StateRunning {
		if stopReason, err = finishIfDone(ctx, q, r); err != nil {
			return nil, err
		}
	}
	err = q.ReplyLevel(ctx, db.ReplyLevelParams{CrawlID: crawl.ID, Depth: r.Depth, StopReason: stopReason, Now: r.Now})
	if err != nil {
		return nil, fmt.Errorf("storing the level's reply: %w", err)
	}
	return stopReason, nil
}

// finishIfDone ends the crawl where no further level was made.
func finishIfDone(ctx context.Context, q *db.Queries, r LevelReport) (*string, error) {
	crawl, err := q.GetCrawl(ctx, r.CrawlID)
	if err != nil {
		return nil, fmt.Errorf("reading the crawl: %w", err)
	}
	_, err = q.GetLevel(ctx, db.GetLevelParams{CrawlID: r.CrawlID, Depth: r.Depth + 1})
	if err == nil {
		return nil, nil //nolint:nilnil // the crawl goes on: no stop reason
	}
	if !isMissing(err) {
		return nil, fmt.Errorf("looking for the next level: %w", err)
	}
	reason := StopCompleted
	if crawl.LimitHit != nil {
		reason = *crawl.LimitHit
	}
	if err := q.FinishCrawl(ctx, db.FinishCrawlParams{ID: r.CrawlID, StopReason: reason, Now: r.Now}); err != nil {
		return nil, fmt.Errorf("finishing the crawl: %w", err)
	}
	return &reason, nil
}

func writeResults(ctx context.Context, tx pgx.Tx, r LevelReport) (int64, error) {
	n := len(r.Results)
	urls, states, reasons, tasks := make([]string, n), make([]string, n), make([]*string, n), make([]*uuid.UUID, n)
	finals, submitted, finished := make([]*string, n), make([]*time.Time, n), make([]*time.Time, n)
	for i, p := range r.Results {
		urls[i], states[i], reasons[i], tasks[i] = p.URL, p.State, p.Reason, p.TaskID
		finals[i], submitted[i], finished[i] = p.FinalURL, p.SubmittedAt, p.FinishedAt
	}
	rows, err := tx.Query(ctx, reportPages, r.CrawlID, r.Depth, urls, r.Now, states, reasons, tasks, finals, submitted, finished)
	if err != nil {
		return 0, fmt.Errorf("writing the level's results: %w", err)
	}
	written, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, fmt.Errorf("writing the level's results: %w", err)
	}
	captured := int64(0)
	for _, state := range written {
		if state == "captured" {
			captured++
		}
	}
	return captured, nil
}

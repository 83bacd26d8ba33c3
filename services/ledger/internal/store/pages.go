package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// Page is a page to take.
type Page struct {
	URL, Host string
}

// insertPages keeps the order in which the pages were found, and leaves out what
// the crawl knows already. What it inserted is what is dispatched.
const insertPages = `
INSERT INTO crawl_pages (crawl_id, url, host, depth)
SELECT $1, p.url, p.host, $2
FROM unnest($3::text[], $4::text[]) WITH ORDINALITY AS p (url, host, position)
ORDER BY p.position
ON CONFLICT (crawl_id, url_hash) DO NOTHING
RETURNING url`

// progress is what a level adds to its crawl.
type progress struct {
	captured  int64
	scopeKeys []string
	limitHit  *string
}

// insertLevel writes pages as a crawl's level, to be dispatched, and counts
// them. Where none is new it makes no level.
func insertLevel(ctx context.Context, tx pgx.Tx, q *db.Queries, crawl uuid.UUID, depth int32, pages []Page, deadline time.Time, p progress) error {
	urls, hosts := make([]string, len(pages)), make([]string, len(pages))
	for i, page := range pages {
		urls[i], hosts[i] = page.URL, page.Host
	}
	inserted := 0
	if len(pages) > 0 {
		tag, err := tx.Exec(ctx, insertPages, crawl, depth, urls, hosts)
		if err != nil {
			return fmt.Errorf("inserting pages: %w", err)
		}
		inserted = int(tag.RowsAffected())
	}
	if inserted > 0 {
		err := q.InsertLevel(ctx, db.InsertLevelParams{CrawlID: crawl, Depth: depth, Pages: int32(inserted), Deadline: deadline})
		if err != nil {
			return fmt.Errorf("inserting the level: %w", err)
		}
	}
	err := q.SetCrawlProgress(ctx, db.SetCrawlProgressParams{
		ID: crawl, Discovered: int64(inserted), Captured: p.captured, ScopeKeys: p.scopeKeys, LimitHit: p.limitHit,
	})
	if err != nil {
		return fmt.Errorf("counting pages: %w", err)
	}
	return nil
}

// KnownPages returns the SHA-256 of the URL of every page of the crawl.
func (s *Store) KnownPages(ctx context.Context, crawl uuid.UUID) (map[[32]byte]struct{}, error) {
	var hashes [][]byte
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		hashes, err = q.ListKnownPages(ctx, crawl)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing known pages: %w", err)
	}
	known := make(map[[32]byte]struct{}, len(hashes))
	for _, h := range hashes {
		known[[32]byte(h)] = struct{}{}
	}
	return known, nil
}

// FrontierPage is a page to dispatch; LastFinishedAt is when its host was last
// finished over all crawls, nil where it never was.
type FrontierPage struct {
	Page
	LastFinishedAt *time.Time
}

// Frontier returns the pages of a level in the order in which they were found.
func (s *Store) Frontier(ctx context.Context, crawl uuid.UUID, depth int32) ([]FrontierPage, error) {
	var rows []db.ListNextPagesRow
	var hosts []db.ListFinishedHostsRow
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		if rows, err = q.ListNextPages(ctx, db.ListNextPagesParams{CrawlID: crawl, Depth: depth}); err != nil {
			return err
		}
		hosts, err = q.ListFinishedHosts(ctx, db.ListFinishedHostsParams{CrawlID: crawl, Depth: depth})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the frontier: %w", err)
	}
	finished := make(map[string]*time.Time, len(hosts))
	for i := range hosts {
		finished[hosts[i].Host] = &hosts[i].FinishedAt
	}
	pages := make([]FrontierPage, len(rows))
	for i, row := range rows {
		pages[i] = FrontierPage{Page: Page{URL: row.Url, Host: row.Host}, LastFinishedAt: finished[row.Host]}
	}
	return pages, nil
}

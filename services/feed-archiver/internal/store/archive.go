package store

import (
	"context"
	"math"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/store/db"
)

// Product is a product's row without its body.
type Product struct {
	ID                         int64
	Source, Request, ProductID string
	ItemKey                    *string
	IssuedAt                   *time.Time
	ReceivedAt                 time.Time
	Hash                       string
	ByteLength                 int64
	Encoding                   string
}

// Bodies returns the products with this content hash, the first received
// first; at least one, or ErrNotFound.
func (s *Store) Bodies(ctx context.Context, hash string) ([]Product, error) {
	var products []Product
	err := s.query(ctx, "reading the products of a hash", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.ListBodies(ctx, hash)
		products = make([]Product, 0, len(rows))
		for _, r := range rows {
			products = append(products, product(db.ListVersionsRow(r)))
		}
		return err
	})
	if err == nil && len(products) == 0 {
		return nil, ErrNotFound
	}
	return products, err
}

func product(r db.ListVersionsRow) Product {
	return Product{
		ID: r.ID, Source: r.Source, Request: r.Request, ProductID: r.ProductID, ItemKey: r.ItemKey, IssuedAt: r.IssuedAt,
		ReceivedAt: r.ReceivedAt, Hash: r.ContentHash, ByteLength: r.ByteLength, Encoding: r.Encoding,
	}
}

// Text returns the stored text with this hash, and its encoding.
func (s *Store) Text(ctx context.Context, hash string) (text, encoding string, err error) {
	err = s.queryWithin(ctx, readTimeout, "reading a stored text", func(ctx context.Context, q *db.Queries) error {
		row, err := q.GetBodyText(ctx, hash)
		text, encoding = row.ContentText, row.Encoding
		return err
	})
	return text, encoding, err
}

// Versions returns up to size versions of a product after a row id, oldest
// first, and whether more follow.
func (s *Store) Versions(ctx context.Context, source, productID string, after int64, size int) (products []Product, more bool, err error) {
	err = s.query(ctx, "reading a product's versions", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.ListVersions(ctx, db.ListVersionsParams{Source: source, ProductID: productID, After: after, PageSize: pageLimit(size)})
		products = make([]Product, 0, len(rows))
		for _, r := range rows {
			products = append(products, product(r))
		}
		return err
	})
	products, more = page(products, size)
	return products, more, err
}

// Position is where a page of polls ended.
type Position struct {
	FetchedAt time.Time
	ID        int64
}

// DayPoll is a poll's row without its sets.
type DayPoll = db.ListPollsRow

// Polls returns up to size polls of a source in [from, until) after a position,
// in the order of fetched_at, and whether more follow.
func (s *Store) Polls(ctx context.Context, source string, from, until time.Time, after *Position, size int) (polls []DayPoll, more bool, err error) {
	begin := Position{FetchedAt: from, ID: math.MinInt64}
	if after != nil {
		begin = *after
	}
	err = s.query(ctx, "reading a day's polls", func(ctx context.Context, q *db.Queries) (err error) {
		polls, err = q.ListPolls(ctx, db.ListPollsParams{
			Source: source, FromTime: from, UntilTime: until, AfterTime: begin.FetchedAt, AfterID: begin.ID, PageSize: pageLimit(size),
		})
		return err
	})
	polls, more = page(polls, size)
	return polls, more, err
}

func pageLimit(size int) int32 { return int32(min(size, 10_000)) + 1 }

// Continuity is one source's row of archive_continuity.
type Continuity = db.ListContinuityRow

// Gap is one row of archive_gaps.
type Gap = db.ListGapsRow

// Continuity returns how steadily each source was read in [from, until), and
// every gap.
func (s *Store) Continuity(ctx context.Context, from, until time.Time) (sources []Continuity, gaps []Gap, err error) {
	err = s.query(ctx, "reading continuity", func(ctx context.Context, q *db.Queries) (err error) {
		if sources, err = q.ListContinuity(ctx, db.ListContinuityParams{FromTime: from, UntilTime: until}); err != nil {
			return err
		}
		gaps, err = q.ListGaps(ctx, db.ListGapsParams{FromTime: from, UntilTime: until})
		return err
	})
	return sources, gaps, err
}

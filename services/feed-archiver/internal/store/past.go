package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/pg"
)

// PastPoll is the poll that answers for a request at some moment.
type PastPoll struct {
	ID         int64
	Request    string
	FetchedAt  time.Time
	ReceivedAt time.Time
	HTTPStatus int32
	ItemsSeen  *int64
	ItemsNew   int64
}

// HeldItem is a product row that a read held.
type HeldItem struct {
	ID        int64
	ProductID string
	ItemKey   *string
	Hash      string
	IssuedAt  *time.Time
	// Text is the stored body, where it was asked for.
	Text string
}

// lastPolls finds, for each request of a source, the last poll at or before a
// moment. It steps from one request to the next through the index: a source has
// few requests and very many polls.
const lastPolls = `
WITH RECURSIVE requests AS (
    (SELECT p.request FROM as_issued_polls p WHERE p.source = $1 ORDER BY p.request LIMIT 1)
    UNION ALL
    SELECT (SELECT p.request FROM as_issued_polls p WHERE p.source = $1 AND p.request > r.request ORDER BY p.request LIMIT 1)
    FROM requests r WHERE r.request IS NOT NULL
)
SELECT p.id, r.request, p.fetched_at, p.received_at, p.http_status, p.items_seen, p.items_new
FROM requests r JOIN LATERAL (
    SELECT l.id, l.fetched_at, l.received_at, l.http_status, l.items_seen, l.items_new
    FROM as_issued_polls l
    WHERE l.source = $1 AND l.request = r.request AND l.fetched_at <= $2
    ORDER BY l.fetched_at DESC, l.id DESC LIMIT 1
) p ON true
WHERE r.request IS NOT NULL AND ($3::text IS NULL OR r.request = $3)
ORDER BY r.request`

// LastPolls returns the last poll of each request of a source (or of the one
// named) at or before a moment, in the order of their names.
func (s *Store) LastPolls(ctx context.Context, source string, at time.Time, request *string) ([]PastPoll, error) {
	polls, err := collect(ctx, s, pgx.RowToStructByPos[PastPoll], lastPolls, source, at, request)
	if err != nil {
		return nil, fmt.Errorf("reading the last polls of %s: %w", source, err)
	}
	return polls, nil
}

// heldSet rebuilds what a poll held: the base of its chain with the changes up
// to it; of several changes of one product the last counts.
const heldSet = `
WITH poll AS (
    SELECT id, coalesce(base_id, id) AS base_id FROM as_issued_polls WHERE id = $1
), changes AS (
    SELECT b.id AS poll_id, unnest(b.held) AS id, true AS here FROM poll JOIN as_issued_polls b ON b.id = poll.base_id
    UNION ALL
    SELECT c.id, unnest(c.appeared), true FROM poll JOIN as_issued_polls c ON c.base_id = poll.base_id AND c.id <= poll.id
    WHERE c.appeared IS NOT NULL OR c.disappeared IS NOT NULL
    UNION ALL
    SELECT c.id, unnest(c.disappeared), false FROM poll JOIN as_issued_polls c ON c.base_id = poll.base_id AND c.id <= poll.id
    WHERE c.appeared IS NOT NULL OR c.disappeared IS NOT NULL
), held AS (
    SELECT id FROM (SELECT DISTINCT ON (id) id, here FROM changes ORDER BY id, poll_id DESC) c WHERE here
)`

const heldBy = heldSet + `
SELECT p.id, p.product_id, p.item_key, p.content_hash, p.issued_at, CASE WHEN $2 THEN p.content_text ELSE '' END
FROM held JOIN as_issued_products p USING (id)
ORDER BY p.product_id, p.item_key NULLS FIRST, p.id`

// HeldBy returns what a poll's read held, with the bodies if asked for.
func (s *Store) HeldBy(ctx context.Context, pollID int64, bodies bool) ([]HeldItem, error) {
	items, err := collect(ctx, s, pgx.RowToStructByPos[HeldItem], heldBy, pollID, bodies)
	if err != nil {
		return nil, fmt.Errorf("reading what a poll held: %w", err)
	}
	return items, nil
}

// HeldIDs returns the rows of what a poll's read held.
func (s *Store) HeldIDs(ctx context.Context, pollID int64) ([]int64, error) {
	ids, err := collect(ctx, s, pgx.RowTo[int64], heldSet+` SELECT id FROM held`, pollID)
	if err != nil {
		return nil, fmt.Errorf("reading which rows a poll held: %w", err)
	}
	return ids, nil
}

// Items returns product rows without their bodies, in the order in which they
// were received.
func (s *Store) Items(ctx context.Context, ids []int64) ([]HeldItem, error) {
	const statement = `SELECT id, product_id, item_key, content_hash, issued_at, '' FROM as_issued_products WHERE id = ANY ($1) ORDER BY id`
	items, err := collect(ctx, s, pgx.RowToStructByPos[HeldItem], statement, ids)
	if err != nil {
		return nil, fmt.Errorf("reading products: %w", err)
	}
	return items, nil
}

// collect reads all rows of a statement.
func collect[T any](ctx context.Context, s *Store, row pgx.RowToFunc[T], statement string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var all []T
	err := pg.Retry(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, statement, args...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, row)
		return err
	})
	return all, err
}

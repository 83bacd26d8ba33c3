package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/services/feed-archiver/internal/store/db"
)

// Key names one body of one product.
type Key struct {
	ProductID string
	ItemKey   string // empty for none
	Hash      string // SHA-256 of the stored text, lower-case hex
}

// Body is a product's row, as it is stored.
type Body struct {
	Key
	IssuedAt *time.Time
	Encoding string // json, text or base64
	Text     string
}

// Poll is a read's row.
type Poll struct {
	Source, Request string
	FetchedAt       time.Time
	HTTPStatus      int
	// Seen is how many items the read held; nil for a 304.
	Seen                    *int64
	Date, Age, LastModified string
}

// lookup is the first of a read's three statements: which bodies are there
// already? It only saves sending those again. It needs no lock, because rows
// never go away, and one that appears meanwhile is found by the third statement.
// The probe of each key stands in a subquery of its own so that the planner
// never prefers a walk over millions of rows.
const lookup = `
SELECT coalesce(array_agg(coalesce(p.id, 0) ORDER BY k.n), '{}')
FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS k (product_id, item_key, content_hash, n)
LEFT JOIN LATERAL (
    SELECT a.id FROM as_issued_products a
    WHERE a.content_hash = k.content_hash AND a.source = $1 AND a.product_id = k.product_id
      AND a.item_key IS NOT DISTINCT FROM k.item_key
    LIMIT 1
) p ON true`

// Known returns the row id of each key, 0 where there is no such row.
func (s *Store) Known(ctx context.Context, source string, keys []Key) ([]int64, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	products, itemKeys, hashes := make([]string, len(keys)), make([]*string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		products[i], itemKeys[i], hashes[i] = k.ProductID, optional(k.ItemKey), k.Hash
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	var ids []int64
	err := pg.Retry(ctx, func(ctx context.Context) error {
		// Planned for the table as it is now, and not once for all sizes.
		return s.pool.QueryRow(ctx, lookup, pgx.QueryExecModeExec, source, products, itemKeys, hashes).Scan(&ids)
	})
	if err != nil {
		return nil, fmt.Errorf("looking for known bodies of %s: %w", source, err)
	}
	return ids, nil
}

// lockSource puts the writes of one source in line until the transaction ends:
// the third statement must see what the write before it left. Those of one
// request are in line because each continues that request's chain; those of the
// source's other requests, because two requests can bring the same new body, and
// whoever loses that race would not see the winner's row. It costs little: the
// pollers read a source one request after another. It is a statement of its own because a
// statement sees the database as it was when it began, before it waited.
//
// For the rest of the transaction it also gives the third statement the time
// that a large read needs on a busy server, and has it planned anew and through
// indexes: a plan that was made while the table was small walks all of
// it for each of tens of thousands of bodies.
const lockSource = `
SELECT pg_advisory_xact_lock(hashtextextended('as_issued ' || $1, 0)),
    set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true),
    set_config('statement_timeout', '2min', true)`

// record is the third statement. It stores the bodies that are new, compares
// what this read held with what the last one did, and writes the poll with the
// difference, or, when the chain's changes outgrow the set, with the whole set.
const record = `
WITH fresh AS (
    SELECT * FROM unnest($9::text[], $10::text[], $11::timestamptz[], $12::text[], $13::text[], $14::text[])
        AS f (product_id, item_key, issued_at, content_hash, encoding, content_text)
), inserted AS (
    INSERT INTO as_issued_products (source, request, product_id, item_key, issued_at, content_hash, byte_length, encoding, content_text)
    SELECT $1, $2, product_id, item_key, issued_at, content_hash, octet_length(content_text), encoding, content_text
    FROM fresh
    ON CONFLICT DO NOTHING
    RETURNING id
), held AS (
    SELECT unnest($8::bigint[]) AS id
    UNION SELECT id FROM inserted
    -- What another request of the source stored since the lookup, if anything.
    UNION SELECT p.id FROM fresh f JOIN LATERAL (
        SELECT a.id FROM as_issued_products a
        WHERE a.content_hash = f.content_hash AND a.source = $1 AND a.product_id = f.product_id
          AND a.item_key IS NOT DISTINCT FROM f.item_key
        LIMIT 1
    ) p ON true
    WHERE (SELECT count(*) FROM inserted) < (SELECT count(*) FROM fresh)
), last AS (
    SELECT id, coalesce(base_id, id) AS base_id, weight
    FROM as_issued_polls WHERE source = $1 AND request = $2 ORDER BY id DESC LIMIT 1
), changes AS (
    SELECT b.id AS poll_id, unnest(b.held) AS id, true AS here
    FROM last JOIN as_issued_polls b ON b.id = last.base_id
    UNION ALL
    SELECT c.id, unnest(c.appeared), true FROM last JOIN as_issued_polls c ON c.base_id = last.base_id
    WHERE c.appeared IS NOT NULL OR c.disappeared IS NOT NULL
    UNION ALL
    SELECT c.id, unnest(c.disappeared), false FROM last JOIN as_issued_polls c ON c.base_id = last.base_id
    WHERE c.appeared IS NOT NULL OR c.disappeared IS NOT NULL
), before AS (
    SELECT id FROM (SELECT DISTINCT ON (id) id, here FROM changes ORDER BY id, poll_id DESC) c WHERE here
), appeared AS (
    SELECT array_agg(id ORDER BY id) AS ids, count(*) AS n FROM (SELECT id FROM held EXCEPT SELECT id FROM before) a
), disappeared AS (
    SELECT array_agg(id ORDER BY id) AS ids, count(*) AS n FROM (SELECT id FROM before EXCEPT SELECT id FROM held) d
), verdict AS (
    SELECT last.base_id, a.ids AS appeared, d.ids AS disappeared,
        CASE WHEN a.n + d.n = 0 THEN last.weight ELSE last.weight + a.n + d.n END AS weight,
        last.id IS NULL OR (a.n + d.n > 0 AND last.weight + a.n + d.n > (SELECT count(*) FROM held)) AS new_base
    FROM appeared a CROSS JOIN disappeared d LEFT JOIN last ON true
)
INSERT INTO as_issued_polls (source, request, fetched_at, http_status, http_date, http_age, http_last_modified,
    items_seen, items_new, base_id, held, appeared, disappeared, weight)
SELECT $1, $2, $3, $4, $5, $6, $7, $15, (SELECT count(*) FROM inserted),
    CASE WHEN NOT new_base THEN base_id END,
    CASE WHEN new_base THEN ARRAY(SELECT id FROM held ORDER BY id) END,
    CASE WHEN NOT new_base THEN appeared END,
    CASE WHEN NOT new_base THEN disappeared END,
    CASE WHEN new_base THEN 0 ELSE weight END
FROM verdict
RETURNING id, items_new`

// recordNotModified writes the poll of a 304: what the last read held stands.
const recordNotModified = `
INSERT INTO as_issued_polls (source, request, fetched_at, http_status, http_date, http_age, http_last_modified,
    items_new, base_id, weight)
SELECT $1, $2, $3, $4, $5, $6, $7, 0, coalesce(last.base_id, last.id), coalesce(last.weight, 0)
FROM (SELECT 1) one LEFT JOIN LATERAL (
    SELECT id, base_id, weight FROM as_issued_polls WHERE source = $1 AND request = $2 ORDER BY id DESC LIMIT 1
) last ON true
RETURNING id, items_new`

// Record stores one read, whole or not at all: the rows of the known bodies
// that it held, the bodies that are new, and the poll. When it returns
// nil, all of it is committed.
func (s *Store) Record(ctx context.Context, p Poll, known []int64, fresh []Body) (Written, error) {
	args := []any{p.Source, p.Request, p.FetchedAt, p.HTTPStatus, optional(p.Date), optional(p.Age), optional(p.LastModified)}
	statement := recordNotModified
	if p.Seen != nil {
		statement = record
		args = append(args, present(known))
		args = append(args, columns(fresh)...)
		args = append(args, *p.Seen)
	}
	return s.write(ctx, p.Source, statement, args)
}

// Written names the poll that was written, and how many bodies were new.
type Written struct {
	PollID, New int64
}

// write sends lock and statement in one go, as one transaction.
func (s *Store) write(ctx context.Context, source, statement string, args []any) (Written, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	var w Written
	err := pg.Retry(ctx, func(ctx context.Context) error {
		var batch pgx.Batch
		batch.Queue(lockSource, source)
		batch.Queue(statement, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&w.PollID, &w.New) })
		return s.pool.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return Written{}, fmt.Errorf("recording a read of %s: %w", source, knownError(err))
	}
	return w, nil
}

func present(ids []int64) []int64 {
	there := make([]int64, 0, len(ids))
	for _, id := range ids {
		if id != 0 {
			there = append(there, id)
		}
	}
	return there
}

func columns(bodies []Body) []any {
	n := len(bodies)
	products, keys, issued := make([]string, n), make([]*string, n), make([]*time.Time, n)
	hashes, encodings, texts := make([]string, n), make([]string, n), make([]string, n)
	for i, b := range bodies {
		products[i], keys[i], issued[i] = b.ProductID, optional(b.ItemKey), b.IssuedAt
		hashes[i], encodings[i], texts[i] = b.Hash, b.Encoding, b.Text
	}
	return []any{products, keys, issued, hashes, encodings, texts}
}

// Failure is a failed read's row.
type Failure struct {
	Source, Request string
	FetchedAt       time.Time
	HTTPStatus      int // 0 where no answer came
	Reason          string
}

// RecordFailure stores one failed read.
func (s *Store) RecordFailure(ctx context.Context, f Failure) error {
	return s.query(ctx, "recording a failed read of "+f.Source, func(ctx context.Context, q *db.Queries) error {
		arg := db.CreateFailedReadParams{Source: f.Source, Request: f.Request, FetchedAt: f.FetchedAt, Reason: f.Reason}
		if f.HTTPStatus != 0 {
			status := int32(f.HTTPStatus)
			arg.HttpStatus = &status
		}
		return q.CreateFailedRead(ctx, arg)
	})
}

// MarkAlive notes that an archiver is alive in this minute.
func (s *Store) MarkAlive(ctx context.Context, now time.Time) error {
	return s.query(ctx, "noting that the archiver is alive", func(ctx context.Context, q *db.Queries) error {
		return q.CreateArchiverMinute(ctx, now)
	})
}

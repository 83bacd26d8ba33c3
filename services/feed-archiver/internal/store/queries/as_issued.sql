-- name: CreateArchiverMinute :exec
INSERT INTO archiver_minutes (minute) VALUES (date_trunc('minute', @now::timestamptz, 'UTC'))
ON CONFLICT DO NOTHING;

-- name: CreateFailedRead :exec
INSERT INTO as_issued_failed_reads (source, request, fetched_at, http_status, reason)
VALUES (@source, @request, @fetched_at, sqlc.narg(http_status), @reason);

-- name: ListBodies :many
-- Every product row with this hash, the first received first.
SELECT id, source, request, product_id, item_key, issued_at, received_at, content_hash, byte_length, encoding
FROM as_issued_products
WHERE content_hash = @content_hash
ORDER BY id
LIMIT 100;

-- name: GetBodyText :one
SELECT content_text, encoding FROM as_issued_products WHERE content_hash = @content_hash ORDER BY id LIMIT 1;

-- name: ListVersions :many
-- The versions of one product after a row, oldest first.
SELECT id, source, request, product_id, item_key, issued_at, received_at, content_hash, byte_length, encoding
FROM as_issued_products
WHERE source = @source AND product_id = @product_id AND id > @after
ORDER BY id
LIMIT @page_size;

-- name: ListPolls :many
-- A source's polls in [from, until), after the (fetched_at, id) of a page's end.
SELECT id, source, request, fetched_at, received_at, http_status, items_seen, items_new, http_date, http_age, http_last_modified
FROM as_issued_polls
WHERE source = @source AND fetched_at >= @from_time AND fetched_at < @until_time
  AND (fetched_at, id) > (@after_time::timestamptz, @after_id::bigint)
ORDER BY fetched_at, id
LIMIT @page_size;

-- name: ListContinuity :many
-- A single read has no intervals; its four columns say 0 and the epoch.
SELECT source::text AS source, reads::bigint AS reads,
    coalesce(extract(epoch FROM usual_interval), 0)::float8 AS usual_seconds,
    coalesce(extract(epoch FROM p95_interval), 0)::float8 AS p95_seconds,
    coalesce(extract(epoch FROM longest_interval), 0)::float8 AS longest_seconds,
    coalesce(longest_interval_started_at, 'epoch')::timestamptz AS longest_started_at,
    intervals_over_three_times_usual::bigint AS over_three_times_usual,
    status::text AS status
FROM archive_continuity(@from_time, @until_time);

-- name: ListGaps :many
SELECT source::text AS source, started_at::timestamptz AS started_at, ended_at::timestamptz AS ended_at,
    failed_reads::bigint AS failed_reads, minutes_alive::bigint AS minutes_alive
FROM archive_gaps(@from_time, @until_time);

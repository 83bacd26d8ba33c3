-- name: CloseCrawl :execrows
UPDATE crawls
SET state = 'failed', stop_reason = @stop_reason::text, error = @error, finished_at = @now::timestamptz
WHERE id = @id AND state = 'running';

-- name: CloseOverdueCrawls :many
-- A level without a reply past its deadline. Two replicas may ask at once: the
-- second waits for the first and then finds the crawl closed. Both rows are
-- locked before they are judged: a report that commits while this waits for the
-- crawl has set its level's reply, and only a locked row is read anew.
WITH overdue AS (
    SELECT r.id, l.depth, l.deadline
    FROM crawls r JOIN crawl_levels l ON l.crawl_id = r.id
    WHERE r.state = 'running' AND l.replied_at IS NULL AND l.deadline < @now::timestamptz
    FOR NO KEY UPDATE OF r, l
)
UPDATE crawls c
SET state = 'failed', stop_reason = 'failed', finished_at = @now::timestamptz,
    error = format('level %s is overdue: not reported by %s', o.depth, to_char(o.deadline AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
FROM overdue o
WHERE c.id = o.id AND c.state = 'running'
RETURNING c.id;

-- name: FinishCrawl :exec
UPDATE crawls
SET state = 'succeeded', stop_reason = @stop_reason::text, finished_at = @now::timestamptz
WHERE id = @id AND state = 'running';

-- name: GetCrawl :one
SELECT id, org_id, submitted_by, seeds, scope, scope_keys, max_depth, max_pages, per_host_delay_ms,
    host_parallelism, sink_prefix, state, stop_reason, limit_hit, error, pages_discovered, pages_captured,
    last_job_id, last_job_depth, started_at, finished_at
FROM crawls
WHERE id = $1;

-- name: GetRunningCrawl :one
SELECT id, org_id, started_at FROM crawls WHERE state = 'running';

-- name: InsertCrawl :exec
INSERT INTO crawls (id, org_id, submitted_by, seeds, scope, scope_keys, max_depth, max_pages, per_host_delay_ms,
    host_parallelism, sink_prefix, limit_hit, started_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: ListCrawls :many
SELECT id, org_id, submitted_by, seeds, scope, scope_keys, max_depth, max_pages, per_host_delay_ms,
    host_parallelism, sink_prefix, state, stop_reason, limit_hit, error, pages_discovered, pages_captured,
    last_job_id, last_job_depth, started_at, finished_at
FROM crawls
WHERE org_id = ANY(@orgs::text[])
    AND (sqlc.narg(state)::text IS NULL OR state = sqlc.narg(state))
    AND (sqlc.narg(before_started)::timestamptz IS NULL OR (started_at, id) < (sqlc.narg(before_started), sqlc.narg(before_id)::uuid))
ORDER BY started_at DESC, id DESC
LIMIT @page_size;

-- name: LockCrawl :one
-- FOR NO KEY UPDATE: rows that refer to the crawl may still be added meanwhile.
SELECT id, org_id, submitted_by, seeds, scope, scope_keys, max_depth, max_pages, per_host_delay_ms,
    host_parallelism, sink_prefix, state, stop_reason, limit_hit, error, pages_discovered, pages_captured,
    last_job_id, last_job_depth, started_at, finished_at
FROM crawls
WHERE id = $1
FOR NO KEY UPDATE;

-- name: SetCrawlProgress :exec
UPDATE crawls
SET pages_discovered = pages_discovered + @discovered::bigint,
    pages_captured = pages_captured + @captured::bigint,
    scope_keys = @scope_keys::text[],
    limit_hit = coalesce(limit_hit, sqlc.narg(limit_hit)::text)
WHERE id = @id;

-- name: SetLastJob :exec
-- A report may have come, and the next level gone out, before the webhook's
-- reply was recorded: the deeper job stays.
UPDATE crawls
SET last_job_id = @job_id::text, last_job_depth = @depth::integer
WHERE id = @id AND (last_job_depth IS NULL OR last_job_depth <= @depth::integer);

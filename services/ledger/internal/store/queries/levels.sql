-- name: ClaimLevel :execrows
-- The claim is for good: a replica that dies while it calls the webhook may have
-- made the job, so nobody calls again. The row lock lets one of several win.
UPDATE crawl_levels l
SET state = 'claimed'
FROM crawls c
WHERE l.crawl_id = @crawl_id AND l.depth = @depth AND l.state = 'pending'
    AND c.id = l.crawl_id AND c.state = 'running';

-- name: CloseUndispatchedCrawl :execrows
-- The webhook failed. A level that was reported all the same has its job: both
-- rows are locked before they are judged, as in CloseOverdueCrawls.
WITH undispatched AS (
    SELECT r.id
    FROM crawls r JOIN crawl_levels l ON l.crawl_id = r.id
    WHERE r.id = @crawl_id AND r.state = 'running' AND l.depth = @depth AND l.replied_at IS NULL
    FOR NO KEY UPDATE OF r, l
)
UPDATE crawls c
SET state = 'failed', stop_reason = 'failed', error = @error::text, finished_at = @now::timestamptz
FROM undispatched u
WHERE c.id = u.id AND c.state = 'running';

-- name: GetLevel :one
SELECT crawl_id, depth, state, pages, deadline, replied_at, stop_reason
FROM crawl_levels
WHERE crawl_id = $1 AND depth = $2;

-- name: InsertLevel :exec
INSERT INTO crawl_levels (crawl_id, depth, pages, deadline) VALUES ($1, $2, $3, $4);

-- name: PendingLevel :one
-- A level that nobody has dispatched; at most one crawl runs, on one level.
SELECT l.crawl_id, l.depth, l.deadline
FROM crawl_levels l JOIN crawls c ON c.id = l.crawl_id
WHERE l.state = 'pending' AND c.state = 'running'
LIMIT 1;

-- name: ReplyLevel :exec
UPDATE crawl_levels
SET replied_at = @now::timestamptz, stop_reason = sqlc.narg(stop_reason)
WHERE crawl_id = @crawl_id AND depth = @depth;

-- name: SetLevelDispatched :exec
UPDATE crawl_levels SET state = 'dispatched' WHERE crawl_id = @crawl_id AND depth = @depth;

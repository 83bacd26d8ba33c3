-- name: ListFailures :many
SELECT url, depth, reason
FROM crawl_pages
WHERE crawl_id = $1 AND state = 'failed'
ORDER BY reported_at DESC, id DESC
LIMIT $2;

-- name: ListFinishedHosts :many
-- The hosts of a level that were finished before, in this crawl or another, and
-- when they last were. Apart from the pages: one look at the index for each host,
-- however the planner would have joined the two.
SELECT d.host, f.finished_at::timestamptz AS finished_at
FROM (SELECT DISTINCT p.host FROM crawl_pages p WHERE p.crawl_id = @crawl_id AND p.depth = @depth) d
CROSS JOIN LATERAL (
    SELECT l.finished_at FROM crawl_pages l
    WHERE l.host = d.host AND l.finished_at IS NOT NULL
    ORDER BY l.finished_at DESC LIMIT 1
) f;

-- name: ListKnownPages :many
SELECT url_hash FROM crawl_pages WHERE crawl_id = $1;

-- name: ListNextPages :many
SELECT url, host, depth FROM crawl_pages WHERE crawl_id = $1 AND depth = $2 ORDER BY id;

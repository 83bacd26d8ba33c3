-- name: DeleteHoles :execrows
DELETE FROM capture_holes WHERE task_id = ANY(@tasks::uuid[]);

-- name: GetArchiveLocation :one
SELECT id, bucket, object_key, object_version_id, object_etag, object_size FROM archives WHERE id = $1;

-- name: GetSubmission :one
SELECT s.task_id, s.correlation_id, s.org_id, s.submitted_by, s.submitted_at, s.manifest_key, s.crawl_id, c.sink_prefix
FROM capture_submissions s LEFT JOIN crawls c ON c.id = s.crawl_id
WHERE s.task_id = $1;

-- name: ListHoles :many
SELECT s.task_id, s.manifest_key, s.submitted_at
FROM capture_holes h JOIN capture_submissions s ON s.task_id = h.task_id
WHERE sqlc.narg(after)::uuid IS NULL OR h.task_id > sqlc.narg(after)
ORDER BY h.task_id
LIMIT @page_size;

-- name: ListOpenSubmissions :many
-- Those of the tasks that still lack an archive.
SELECT s.task_id, s.correlation_id, s.org_id, s.submitted_by, s.submitted_at, s.manifest_key, s.crawl_id, c.sink_prefix
FROM capture_submissions s
JOIN capture_holes h ON h.task_id = s.task_id
LEFT JOIN crawls c ON c.id = s.crawl_id
WHERE s.task_id = ANY(@tasks::uuid[]);

-- name: ListAdmittedTasks :many
SELECT DISTINCT task_id FROM archives WHERE task_id = ANY(@tasks::uuid[]);

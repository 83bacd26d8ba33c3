-- name: GetArchive :one
SELECT id, task_id, source_url, labels, wacz_complete, signed, captured_at, object_key
FROM archives
WHERE id = $1;

-- name: GetArchiveHash :one
SELECT sha256 FROM archives WHERE id = $1;

-- name: CountRequested :one
SELECT count(*)
FROM capture_submissions
WHERE task_id = ANY(sqlc.arg(tasks)::uuid[])
  AND (org_id = ANY(sqlc.arg(organizations)::text[]) OR submitted_by = sqlc.arg(subject)::text);

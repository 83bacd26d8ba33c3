-- name: GetArchive :one
SELECT id, task_id, source_url, labels, wacz_complete, signed, captured_at, object_key
FROM archives
WHERE id = $1;

-- name: GetArchiveHash :one
SELECT sha256 FROM archives WHERE id = $1;

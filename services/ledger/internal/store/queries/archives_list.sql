-- name: GetArchive :one
SELECT id, task_id, source_url, labels, wacz_complete, signed, captured_at, object_key
FROM archives
WHERE id = $1;

-- name: ListArchives :many
-- Newest first after a position. The last page of a listing ends where the rows
-- end, so equal times are told apart by id.
SELECT id, task_id, source_url, labels, wacz_complete, signed, captured_at, object_key
FROM archives
WHERE (captured_at, id) < (@captured_at::timestamptz, @id::uuid)
ORDER BY captured_at DESC, id DESC
LIMIT @page_size;

-- name: ListArchivesAmong :many
-- The same, of archives that are known by their ids.
SELECT id, task_id, source_url, labels, wacz_complete, signed, captured_at, object_key
FROM archives
WHERE id = ANY(@ids::uuid[]) AND (captured_at, id) < (@captured_at::timestamptz, @id::uuid)
ORDER BY captured_at DESC, id DESC
LIMIT @page_size;

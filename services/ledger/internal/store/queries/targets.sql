-- name: DeleteTarget :execrows
DELETE FROM capture_targets WHERE id = $1;

-- name: GetTarget :one
SELECT id, org_id, url, labels, enabled, created_at FROM capture_targets WHERE id = $1;

-- name: ListEnabledTargets :many
SELECT url FROM capture_targets WHERE org_id = $1 AND enabled ORDER BY id LIMIT $2;

-- name: ListTargets :many
SELECT id, org_id, url, labels, enabled, created_at
FROM capture_targets
WHERE org_id = @org_id AND id > @after
ORDER BY id
LIMIT @page_size;

-- name: SetTargetEnabled :one
UPDATE capture_targets SET enabled = @enabled, updated_at = @now
WHERE id = @id
RETURNING id, org_id, url, labels, enabled, created_at;

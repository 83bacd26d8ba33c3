-- name: ListEnabledTargets :many
SELECT url FROM capture_targets WHERE org_id = $1 AND enabled ORDER BY id LIMIT $2;

-- name: IsUndelivered :one
-- Whether a row that names one of the keys still waits, or was set aside.
SELECT EXISTS (
    SELECT 1
      FROM outbox.fga_outbox
     WHERE processed_at IS NULL AND keys && sqlc.arg(keys)::text[]
);

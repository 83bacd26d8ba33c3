-- All times here are the database's: leases are compared by relays on several
-- machines, whose clocks differ.

-- name: Advance :execrows
-- Remembers how far a large row has come.
UPDATE outbox.fga_outbox
   SET tuples_done = sqlc.arg(tuples_done)
 WHERE id = sqlc.arg(id) AND claim = sqlc.arg(claim);

-- name: Claim :many
-- Takes rows that nothing stands before: no earlier undelivered row, dead ones
-- included, of any of their keys. Two rows taken together therefore never share
-- a key. A snapshot that is older than another relay's work only makes this more
-- careful; the row lock makes Postgres judge the newest version of each row.
-- The limit stands beside the lock, so it bounds what is locked.
WITH picked AS MATERIALIZED (
    SELECT r.id
      FROM outbox.fga_outbox AS r
     WHERE r.processed_at IS NULL AND r.dead_at IS NULL
       AND (r.claimed_until IS NULL OR r.claimed_until <= now())
       AND (r.next_attempt_at IS NULL OR r.next_attempt_at <= now())
       AND NOT EXISTS (
            SELECT 1
              FROM outbox.fga_outbox AS earlier
             WHERE earlier.processed_at IS NULL AND earlier.keys && r.keys AND earlier.id < r.id)
     ORDER BY r.id
     LIMIT sqlc.arg(max_rows)
       FOR UPDATE OF r SKIP LOCKED
)
UPDATE outbox.fga_outbox AS r
   SET claim = sqlc.arg(claim), claimed_until = now() + sqlc.arg(lease_ms)::bigint * interval '1 millisecond'
  FROM picked
 WHERE r.id = picked.id
RETURNING r.id, r.payload, r.created_at, r.attempts, r.tuples_done;

-- name: Deliver :execrows
-- Does not wait for the disk, which would cost as much again as the engine's own
-- commit. A crash of the database may lose the newest marks; it loses them in
-- the order of the log, so a later row's is never kept without an earlier one's,
-- and the rows are delivered once more, in order. (A claim does wait: it must
-- not be forgotten while somebody sends.)
WITH soon AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
UPDATE outbox.fga_outbox
   SET processed_at = clock_timestamp(), claim = NULL, claimed_until = NULL, next_attempt_at = NULL
  FROM soon
 WHERE id = ANY(sqlc.arg(ids)::bigint[]) AND claim = sqlc.arg(claim);

-- name: ListDead :many
SELECT id, payload, keys, created_at, dead_at, attempts, last_error
  FROM outbox.fga_outbox
 WHERE processed_at IS NULL AND dead_at IS NOT NULL AND id > sqlc.arg(after_id)
 ORDER BY id
 LIMIT sqlc.arg(max_rows);

-- name: OldestWaiting :one
SELECT created_at
  FROM outbox.fga_outbox
 WHERE processed_at IS NULL AND dead_at IS NULL
 ORDER BY id
 LIMIT 1;

-- name: Refuse :execrows
-- Spends an attempt, and sets the row aside when it was the last one.
UPDATE outbox.fga_outbox
   SET attempts = attempts + 1, last_error = sqlc.arg(reason), claim = NULL, claimed_until = NULL,
       next_attempt_at = now() + sqlc.arg(wait_ms)::bigint * interval '1 millisecond',
       dead_at = CASE WHEN sqlc.arg(dead)::boolean THEN now() END
 WHERE id = sqlc.arg(id) AND claim = sqlc.arg(claim);

-- name: Release :execrows
-- Gives rows back without spending an attempt; nobody takes them for wait_ms.
UPDATE outbox.fga_outbox
   SET claim = NULL, claimed_until = NULL,
       next_attempt_at = now() + sqlc.arg(wait_ms)::bigint * interval '1 millisecond'
 WHERE id = ANY(sqlc.arg(ids)::bigint[]) AND claim = sqlc.arg(claim);

-- name: Renew :execrows
UPDATE outbox.fga_outbox
   SET claimed_until = now() + sqlc.arg(lease_ms)::bigint * interval '1 millisecond'
 WHERE id = ANY(sqlc.arg(ids)::bigint[]) AND claim = sqlc.arg(claim);

-- name: Retry :execrows
-- The attempts begin anew; what stands behind the rows waits on until they are
-- delivered.
UPDATE outbox.fga_outbox
   SET dead_at = NULL, attempts = 0, next_attempt_at = NULL
 WHERE id = ANY(sqlc.arg(ids)::bigint[]) AND processed_at IS NULL AND dead_at IS NOT NULL;

-- name: RetryAll :execrows
UPDATE outbox.fga_outbox
   SET dead_at = NULL, attempts = 0, next_attempt_at = NULL
 WHERE processed_at IS NULL AND dead_at IS NOT NULL;

-- name: Stats :one
-- Both counts read their partial index alone.
SELECT (SELECT count(*) FROM outbox.fga_outbox WHERE processed_at IS NULL AND dead_at IS NULL) AS waiting,
       (SELECT count(*) FROM outbox.fga_outbox WHERE processed_at IS NULL AND dead_at IS NOT NULL) AS dead;

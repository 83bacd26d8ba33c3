-- name: ClaimAttempts :many
-- Claims those of the given holes that are due and that nobody holds. A claim
-- outlives this statement and ends by itself at claimed_until.
INSERT INTO attempts AS a (task_id, claimed_until, next_attempt_at)
SELECT hole.task_id, @claimed_until::timestamptz, @now::timestamptz
FROM unnest(@task_ids::uuid[]) AS hole (task_id)
ON CONFLICT (task_id) DO UPDATE
SET claimed_until = excluded.claimed_until
WHERE a.claimed_until <= @now AND (a.next_attempt_at <= @now OR @force::boolean)
RETURNING a.task_id, a.attempts;

-- name: DeferAttempt :exec
-- Gives a hole back, to be tried again later.
UPDATE attempts
SET attempts = attempts + @counts::integer, claimed_until = @now::timestamptz,
    next_attempt_at = @next_attempt_at::timestamptz, last_reason = @last_reason::text
WHERE task_id = @task_id;

-- name: FinishAttempt :exec
-- Records the end of a hole. Should the ledger list it once more all the same,
-- it is tried again at next_attempt_at.
UPDATE attempts
SET attempts = attempts + 1, claimed_until = @now::timestamptz, next_attempt_at = @next_attempt_at::timestamptz,
    last_reason = sqlc.narg(last_reason), outcome = @outcome::text, finished_at = @now::timestamptz
WHERE task_id = @task_id;

-- name: LockArchive :exec
-- One change at a time of who may view an archive. A row lock would need the
-- right to update archives.
SELECT pg_advisory_xact_lock(hashtextextended(@object::text, 0));

-- name: PutShare :execrows
INSERT INTO shares (archive_id, subject, granted_by, granted_at, until)
SELECT id, @subject, @granted_by, @granted_at, @until FROM archives WHERE id = sqlc.arg(archive_id)
ON CONFLICT (archive_id, subject) DO UPDATE
SET granted_by = excluded.granted_by, granted_at = excluded.granted_at, until = excluded.until;

-- name: DeleteEndedShares :many
DELETE FROM shares WHERE archive_id = sqlc.arg(archive_id) AND until <= @now RETURNING subject;

-- name: CountOtherShares :one
SELECT count(*) FROM shares WHERE archive_id = sqlc.arg(archive_id) AND subject <> @subject AND until > @now;

-- name: DeleteShare :execrows
DELETE FROM shares WHERE archive_id = sqlc.arg(archive_id) AND subject = @subject;

-- name: DeleteShares :many
DELETE FROM shares WHERE archive_id = sqlc.arg(archive_id) RETURNING subject;

-- name: ListShares :many
SELECT subject, granted_at, until FROM shares
WHERE archive_id = sqlc.arg(archive_id) AND until > @now
ORDER BY subject COLLATE "C";

-- name: BuryArchive :one
-- Inserts the tombstone, whose trigger removes the archive. No row where there
-- is no such archive.
INSERT INTO tombstones (archive_id, deleted_by, deleted_at)
VALUES (sqlc.arg(archive_id), @deleted_by, @deleted_at)
RETURNING task_id;

-- name: GetCapture :one
-- Whose a capture is, and whether it still has an archive.
SELECT s.org_id, s.submitted_by, EXISTS (SELECT 1 FROM archives a WHERE a.task_id = s.task_id) AS has_archive
FROM capture_submissions s
WHERE s.task_id = @task_id;

-- name: WasAdmitted :one
-- Whether an archive is, or ever was, admitted under a key. One snapshot holds
-- both: a deletion moves the name from one to the other.
SELECT (
    EXISTS (SELECT 1 FROM archives a WHERE a.bucket = @bucket AND a.object_key = @object_key)
    OR EXISTS (SELECT 1 FROM tombstones t WHERE t.bucket = @bucket AND t.object_key = @object_key)
)::boolean AS admitted;

-- name: ClaimRemovals :many
-- Takes objects to remove, for as long as the lease. The times are the
-- database's: replicas' clocks differ.
UPDATE tombstones
SET attempts = attempts + 1, next_attempt_at = now() + sqlc.arg(lease_ms)::bigint * interval '1 millisecond'
WHERE archive_id IN (
    SELECT archive_id FROM tombstones
    WHERE next_attempt_at <= now()
    ORDER BY next_attempt_at
    LIMIT sqlc.arg(max_rows)
    FOR UPDATE SKIP LOCKED
)
RETURNING archive_id, bucket, object_key, object_version_id, attempts;

-- name: FinishRemoval :exec
UPDATE tombstones SET object_removed_at = now(), note = NULL, next_attempt_at = NULL
WHERE archive_id = sqlc.arg(archive_id) AND next_attempt_at IS NOT NULL;

-- name: LeaveObject :exec
UPDATE tombstones SET note = sqlc.arg(note), next_attempt_at = NULL
WHERE archive_id = sqlc.arg(archive_id) AND next_attempt_at IS NOT NULL;

-- name: PostponeRemoval :exec
UPDATE tombstones SET note = sqlc.arg(note), next_attempt_at = now() + sqlc.arg(wait_ms)::bigint * interval '1 millisecond'
WHERE archive_id = sqlc.arg(archive_id) AND next_attempt_at IS NOT NULL;

-- name: CountRemovals :one
SELECT count(*) FROM tombstones WHERE next_attempt_at IS NOT NULL;

-- name: ClaimSource :one
-- Takes a source that is due (or, with force, any) and that nobody holds. The
-- claim outlives this statement and ends by itself at claimed_until.
-- The first condition spares the row a lock at every look.
INSERT INTO source_schedule AS s (source, next_read_at, claimed_by, claimed_until)
SELECT @source::text, now(), @reader::uuid, now() + make_interval(secs => @lease_seconds::float8)
WHERE NOT EXISTS (
    SELECT FROM source_schedule h
    WHERE h.source = @source AND (h.claimed_until > now() OR (h.next_read_at > now() AND NOT @force::boolean))
)
ON CONFLICT (source) DO UPDATE
SET claimed_by = excluded.claimed_by, claimed_until = excluded.claimed_until
WHERE (s.claimed_until IS NULL OR s.claimed_until <= now()) AND (s.next_read_at <= now() OR @force::boolean)
RETURNING s.source, s.next_read_at;

-- name: MeetSource :exec
INSERT INTO source_schedule (source, next_read_at)
VALUES (@source, now() + make_interval(secs => @wait_seconds::float8))
ON CONFLICT DO NOTHING;

-- name: RenewClaim :execrows
UPDATE source_schedule
SET claimed_until = now() + make_interval(secs => @lease_seconds::float8)
WHERE source = @source AND claimed_by = @reader::uuid AND claimed_until > now();

-- name: ReleaseSource :execrows
-- Gives a source back, due again after a wait. A reader whose claim was taken
-- over changes nothing.
UPDATE source_schedule
SET claimed_by = NULL, claimed_until = NULL, next_read_at = now() + make_interval(secs => @wait_seconds::float8)
WHERE source = @source AND claimed_by = @reader::uuid;

-- name: ListSourceStates :many
-- What the last day shows of each source, and what is due when. Where there
-- was no read, or no failure, the times are the epoch.
SELECT n.source::text AS source, s.next_read_at, coalesce(s.claimed_until > now(), false)::boolean AS reading,
    coalesce(g.fetched_at, 'epoch')::timestamptz AS last_read_at,
    coalesce(f.fetched_at, 'epoch')::timestamptz AS last_failure_at, coalesce(f.reason, '')::text AS last_failure,
    d.reads::bigint AS reads, d.unchanged::bigint AS unchanged, d.seen::bigint AS seen, d.fresh::bigint AS fresh
FROM unnest(@sources::text[]) AS n (source)
LEFT JOIN source_schedule s ON s.source = n.source
LEFT JOIN LATERAL (
    SELECT p.fetched_at FROM as_issued_polls p WHERE p.source = n.source ORDER BY p.fetched_at DESC LIMIT 1
) g ON true
LEFT JOIN LATERAL (
    SELECT r.fetched_at, r.reason FROM as_issued_failed_reads r WHERE r.source = n.source ORDER BY r.fetched_at DESC LIMIT 1
) f ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS reads, count(*) FILTER (WHERE p.items_seen IS NULL) AS unchanged,
        coalesce(sum(p.items_seen), 0) AS seen, coalesce(sum(p.items_new), 0) AS fresh
    FROM as_issued_polls p WHERE p.source = n.source AND p.fetched_at > now() - interval '24 hours'
) d ON true
ORDER BY n.source;

-- name: GetMaxFetchAge :one
SELECT extract(epoch FROM max_fetch_age)::float8 FROM as_issued_settings;

-- name: GetValidator :one
SELECT v.url_hash, v.etag, v.last_modified FROM request_validators v
WHERE v.source = @source AND v.request = @request AND NOT EXISTS (
    SELECT FROM as_issued_polls p
    WHERE p.source = v.source AND p.request = v.request AND p.id > v.poll_id AND p.items_seen IS NOT NULL
);

-- name: PutValidator :exec
INSERT INTO request_validators (source, request, url_hash, etag, last_modified, poll_id)
VALUES (@source, @request, @url_hash, @etag, @last_modified, @poll_id)
ON CONFLICT (source, request) DO UPDATE
SET url_hash = excluded.url_hash, etag = excluded.etag, last_modified = excluded.last_modified, poll_id = excluded.poll_id;

-- name: DropValidator :exec
DELETE FROM request_validators WHERE source = @source AND request = @request;

-- name: InsertIssuedURLs :exec
-- One row for each URL of a call; they share who asked and how. No RETURNING:
-- the role may not read.
INSERT INTO issued_urls (archive_id, subject, organizations, caller, issued_at, expires_at, version_id, request_id)
SELECT
    unnest(@archive_ids::uuid[]),
    @subject::text,
    @organizations::text[],
    @caller::text,
    unnest(@issued_at::timestamptz[]),
    unnest(@expires_at::timestamptz[]),
    nullif(unnest(@version_ids::text[]), ''),
    @request_id::text;

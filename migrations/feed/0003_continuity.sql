-- How steadily each source was read. A gap says that nobody read, not why.

-- +goose Up

-- The reads that count: the first of a source, and each that began at least 90
-- seconds after the last counted one, because the requests of one source are
-- read one after another. ended_at is the next counted read, or NULL.
-- +goose StatementBegin
CREATE FUNCTION archive_counted_reads("start" timestamptz, "end" timestamptz)
RETURNS TABLE (source text, started_at timestamptz, ended_at timestamptz)
LANGUAGE sql STABLE SET search_path = feed AS $$
    WITH RECURSIVE sources AS (
        (SELECT p.source FROM as_issued_polls p ORDER BY p.source LIMIT 1)
        UNION ALL
        SELECT (SELECT p.source FROM as_issued_polls p WHERE p.source > s.source ORDER BY p.source LIMIT 1)
        FROM sources s WHERE s.source IS NOT NULL
    ), counted AS (
        SELECT s.source, (SELECT p.fetched_at FROM as_issued_polls p
            WHERE p.source = s.source AND p.fetched_at >= $1 AND p.fetched_at < $2
            ORDER BY p.fetched_at LIMIT 1) AS at
        FROM sources s WHERE s.source IS NOT NULL
        UNION ALL
        SELECT c.source, (SELECT p.fetched_at FROM as_issued_polls p
            WHERE p.source = c.source AND p.fetched_at >= c.at + interval '90 seconds' AND p.fetched_at < $2
            ORDER BY p.fetched_at LIMIT 1)
        FROM counted c WHERE c.at IS NOT NULL
    )
    SELECT c.source, c.at, lead(c.at) OVER (PARTITION BY c.source ORDER BY c.at)
    FROM counted c WHERE c.at IS NOT NULL
$$;
-- +goose StatementEnd

-- Per source: its reads in [start, end), its usual interval (the median of its
-- own), and what became of it. The judgement 'silent' is taken at the end, or
-- now where the end lies ahead.
-- +goose StatementBegin
CREATE FUNCTION archive_continuity("start" timestamptz, "end" timestamptz)
RETURNS TABLE (
    source text, reads bigint, usual_interval interval, p95_interval interval,
    longest_interval interval, longest_interval_started_at timestamptz,
    intervals_over_three_times_usual bigint, last_read_at timestamptz, status text)
LANGUAGE sql STABLE SET search_path = feed AS $$
    WITH counted AS (
        SELECT r.source, r.started_at, r.ended_at - r.started_at AS span
        FROM archive_counted_reads($1, $2) r
    ), usual AS (
        SELECT c.source, count(*) AS reads, max(c.started_at) AS last_read_at,
            percentile_cont(0.5) WITHIN GROUP (ORDER BY c.span) AS usual,
            percentile_cont(0.95) WITHIN GROUP (ORDER BY c.span) AS p95
        FROM counted c GROUP BY c.source
    ), longest AS (
        SELECT DISTINCT ON (c.source) c.source, c.span, c.started_at
        FROM counted c WHERE c.span IS NOT NULL
        ORDER BY c.source, c.span DESC, c.started_at
    ), over AS (
        SELECT c.source, count(*) AS n FROM counted c JOIN usual u USING (source)
        WHERE c.span > 3 * u.usual GROUP BY c.source
    )
    SELECT u.source, u.reads, u.usual, u.p95, l.span, l.started_at, coalesce(o.n, 0), u.last_read_at,
        CASE
            WHEN u.reads = 1 THEN 'single_read'
            WHEN least($2, now()) - u.last_read_at > 3 * u.usual THEN 'silent'
            WHEN o.n > 0 THEN 'gapped'
            ELSE 'continuous'
        END
    FROM usual u LEFT JOIN longest l USING (source) LEFT JOIN over o USING (source)
    ORDER BY u.source
$$;
-- +goose StatementEnd

-- The gaps themselves: every interval over three times the usual, the one that
-- is still open included, with how often a read failed in it and in how many of
-- its minutes an archiver was alive.
-- +goose StatementBegin
CREATE FUNCTION archive_gaps("start" timestamptz, "end" timestamptz)
RETURNS TABLE (source text, started_at timestamptz, ended_at timestamptz, failed_reads bigint, minutes_alive bigint)
LANGUAGE sql STABLE SET search_path = feed AS $$
    WITH gaps AS (
        SELECT r.source, r.started_at, coalesce(r.ended_at, least($2, now())) AS ended_at
        FROM archive_counted_reads($1, $2) r
        JOIN archive_continuity($1, $2) c USING (source)
        WHERE coalesce(r.ended_at, least($2, now())) - r.started_at > 3 * c.usual_interval
    )
    SELECT g.source, g.started_at, g.ended_at,
        (SELECT count(*) FROM as_issued_failed_reads f
            WHERE f.source = g.source AND f.fetched_at > g.started_at AND f.fetched_at < g.ended_at),
        (SELECT count(*) FROM archiver_minutes m WHERE m.minute > g.started_at AND m.minute < g.ended_at)
    FROM gaps g ORDER BY g.source, g.started_at
$$;
-- +goose StatementEnd

GRANT EXECUTE ON FUNCTION archive_counted_reads(timestamptz, timestamptz),
    archive_continuity(timestamptz, timestamptz),
    archive_gaps(timestamptz, timestamptz) TO muniment_feed;

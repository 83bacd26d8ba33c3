-- Crawls, their levels and their pages. What must never happen is refused by
-- the schema: two running crawls (they cannot see each other's per-host
-- spacing), a page taken twice by one crawl, a closed crawl without its reason.

-- +goose Up
CREATE TABLE crawls (
    id                uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    org_id            text        NOT NULL CHECK (org_id <> ''),
    -- NULL where a service subject asked: nobody in person owns the captures.
    submitted_by      text        CHECK (submitted_by <> ''),
    seeds             text[]      NOT NULL CHECK (cardinality(seeds) > 0),
    scope             text        NOT NULL CHECK (scope IN ('same-origin', 'same-host')),
    -- The origins (or hosts) that are inside: those of the seeds, and those at
    -- which a redirected seed arrived.
    scope_keys        text[]      NOT NULL,
    max_depth         integer     NOT NULL CHECK (max_depth BETWEEN 0 AND 10),
    max_pages         integer     NOT NULL CHECK (max_pages BETWEEN 1 AND 10000),
    per_host_delay_ms integer     NOT NULL CHECK (per_host_delay_ms BETWEEN 0 AND 600000),
    host_parallelism  integer     NOT NULL CHECK (host_parallelism BETWEEN 1 AND 32),
    -- Where the artifact sink puts this crawl's files; NULL without a sink.
    sink_prefix       text,
    state             text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'succeeded', 'failed')),
    stop_reason       text        CHECK (stop_reason IN ('completed', 'max_depth', 'max_pages', 'stopped', 'failed')),
    -- The first limit that left something out; it becomes the stop reason.
    limit_hit         text        CHECK (limit_hit IN ('max_depth', 'max_pages')),
    error             text,
    pages_discovered  bigint      NOT NULL DEFAULT 0,
    pages_captured    bigint      NOT NULL DEFAULT 0,
    last_job_id       text,
    last_job_depth    integer,
    started_at        timestamptz NOT NULL,
    finished_at       timestamptz,
    CHECK ((state = 'running') = (stop_reason IS NULL)),
    CHECK ((state = 'running') = (finished_at IS NULL)),
    CHECK ((last_job_id IS NULL) = (last_job_depth IS NULL))
);

CREATE UNIQUE INDEX crawls_one_running_idx ON crawls ((true)) WHERE state = 'running';
CREATE INDEX crawls_org_started_idx ON crawls (org_id, started_at DESC, id DESC);

-- One row for each level that is, or will be, dispatched. Its reply is stored
-- as replied_at and stop_reason; the reply's next pages are the crawl's pages
-- one level deeper, which nothing else makes.
CREATE TABLE crawl_levels (
    crawl_id    uuid        NOT NULL REFERENCES crawls (id),
    depth       integer     NOT NULL CHECK (depth BETWEEN 0 AND 10),
    -- pending: nobody has called the webhook. claimed: a replica is calling it,
    -- or died while it did; nobody calls again, because the job may exist.
    state       text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'claimed', 'dispatched')),
    pages       integer     NOT NULL,
    deadline    timestamptz NOT NULL,
    replied_at  timestamptz,
    stop_reason text,
    PRIMARY KEY (crawl_id, depth)
);

CREATE INDEX crawl_levels_pending_idx ON crawl_levels (crawl_id) WHERE state = 'pending';

CREATE TABLE crawl_pages (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    crawl_id     uuid        NOT NULL REFERENCES crawls (id),
    url          text        NOT NULL,
    -- The text's own UTF-8 bytes, hashed; decode is the immutable way to them.
    url_hash     bytea       NOT NULL GENERATED ALWAYS AS (sha256(decode(replace(url, '\', '\\'), 'escape'))) STORED,
    host         text        NOT NULL,
    depth        integer     NOT NULL CHECK (depth BETWEEN 0 AND 10),
    state        text        NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'captured', 'failed', 'skipped')),
    reason       text,
    task_id      uuid,
    final_url    text,
    submitted_at timestamptz,
    finished_at  timestamptz,
    reported_at  timestamptz,
    CHECK ((state = 'queued') = (reported_at IS NULL))
);

CREATE UNIQUE INDEX crawl_pages_crawl_id_url_hash_key ON crawl_pages (crawl_id, url_hash);
CREATE INDEX crawl_pages_level_idx ON crawl_pages (crawl_id, depth, id);
CREATE INDEX crawl_pages_failed_idx ON crawl_pages (crawl_id, reported_at DESC, id DESC) WHERE state = 'failed';
-- When was this host last finished, over all crawls.
CREATE INDEX crawl_pages_host_finished_idx ON crawl_pages (host, finished_at DESC) WHERE finished_at IS NOT NULL;

GRANT SELECT, INSERT ON crawls, crawl_levels, crawl_pages TO muniment_ledger;
GRANT UPDATE (scope_keys, state, stop_reason, limit_hit, error, pages_discovered, pages_captured,
    last_job_id, last_job_depth, finished_at) ON crawls TO muniment_ledger;
GRANT UPDATE (state, deadline, replied_at, stop_reason) ON crawl_levels TO muniment_ledger;
GRANT UPDATE (state, reason, task_id, final_url, submitted_at, finished_at, reported_at) ON crawl_pages TO muniment_ledger;

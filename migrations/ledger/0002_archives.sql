-- What was captured, whose it is, and what of it is stored. An archive has no
-- owner and no organization: the submission row and the tuples answer that.

-- +goose Up
CREATE TABLE capture_submissions (
    task_id        uuid        PRIMARY KEY,
    correlation_id text,
    org_id         text        NOT NULL CHECK (org_id <> ''),
    submitted_by   text        CHECK (submitted_by <> ''),
    submitted_at   timestamptz NOT NULL DEFAULT now(),
    manifest_key   text,
    manifest_error text,
    -- The crawl whose level this task was part of.
    crawl_id       uuid        REFERENCES crawls (id),
    CHECK (manifest_key IS NULL OR manifest_error IS NULL)
);

CREATE INDEX capture_submissions_crawl_id_idx ON capture_submissions (crawl_id);

-- What still lacks an archive: a row comes with a submission that has a
-- manifest key, and goes when the archive comes or can never come. Asking for
-- holes costs what there are holes.
CREATE TABLE capture_holes (
    task_id uuid PRIMARY KEY REFERENCES capture_submissions (task_id)
);

CREATE TABLE archives (
    id                uuid        CONSTRAINT archives_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
    task_id           uuid        NOT NULL,
    correlation_id    text,
    bucket            text        NOT NULL,
    object_key        text        NOT NULL,
    source_url        text        NOT NULL,
    labels            text[]      NOT NULL DEFAULT '{}',
    -- Three-valued: NULL is 'not recorded'.
    wacz_complete     boolean,
    signed            boolean,
    captured_at       timestamptz NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT now(),
    -- The object as it was seen at admission.
    object_etag       text        NOT NULL,
    object_size       bigint      NOT NULL CHECK (object_size > 0),
    object_version_id text,
    sha256            bytea       CHECK (octet_length(sha256) = 32),
    CONSTRAINT archives_bucket_object_key_key UNIQUE (bucket, object_key)
);

CREATE INDEX archives_captured_at_idx ON archives (captured_at DESC);
CREATE INDEX archives_task_id_idx ON archives (task_id);

GRANT SELECT, INSERT ON capture_submissions, archives TO muniment_ledger;
-- UPDATE only because locking a row in order (FOR UPDATE) asks for it.
GRANT SELECT, INSERT, UPDATE (task_id), DELETE ON capture_holes TO muniment_ledger;

-- The pages that an organization wants captured regularly. A target is known by
-- its organization and the hash of its URL, so URLs of any length stay unique.

-- +goose Up
CREATE TABLE capture_targets (
    id         bigserial   PRIMARY KEY,
    url        text        NOT NULL,
    url_hash   bytea       NOT NULL GENERATED ALWAYS AS (sha256(decode(replace(url, '\', '\\'), 'escape'))) STORED,
    labels     text[]      NOT NULL DEFAULT '{}',
    enabled    boolean     NOT NULL DEFAULT true,
    org_id     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT capture_targets_url_trimmed CHECK (url = btrim(url, E' \t\r\n\v\f')),
    CONSTRAINT capture_targets_url_http CHECK (url ~* '^https?://'),
    CONSTRAINT capture_targets_org_id_url_hash_key UNIQUE (org_id, url_hash)
);

CREATE INDEX capture_targets_enabled_idx ON capture_targets (org_id, id) WHERE enabled;

GRANT SELECT, INSERT, DELETE ON capture_targets TO muniment_ledger;
GRANT UPDATE (enabled, updated_at) ON capture_targets TO muniment_ledger;
GRANT USAGE ON SEQUENCE capture_targets_id_seq TO muniment_ledger;

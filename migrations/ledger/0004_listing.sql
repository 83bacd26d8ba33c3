-- The filters of the archive listing, each with an index that ends in the
-- listing's own order, so that a page costs a page and not what is stored. And
-- a correction: Postgres knows no \v in a text, so the targets' trimming took
-- every URL that ends in the letter v for untrimmed.

-- +goose Up

-- The host of an http(s) URL, lower-case, without port and without brackets.
CREATE FUNCTION url_host(url text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN left(lower(btrim(substring(url FROM '^[A-Za-z]+://(?:[^/?#@]*@)?(\[[^]/?#]*\]|[^:/?#]*)'), '[]')), 255);

-- An index holds no entry over a third of a page, and a label may be of any
-- length: what is longer is known by its beginning.
CREATE FUNCTION label_keys(labels text[]) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ARRAY(SELECT left(label, 255) FROM unnest(labels) AS label);

GRANT EXECUTE ON FUNCTION url_host(text), label_keys(text[]) TO muniment_ledger;

CREATE INDEX archives_listing_idx ON archives (captured_at DESC, id DESC);
-- One URL, or a prefix: "C" orders by bytes, as a prefix needs it.
CREATE INDEX archives_source_url_idx ON archives (left(source_url, 512) COLLATE "C", captured_at DESC, id DESC);
CREATE INDEX archives_host_idx ON archives (url_host(source_url), captured_at DESC, id DESC);
CREATE INDEX archives_labels_idx ON archives USING gin (label_keys(labels));
-- Each archive is in one of these three.
CREATE INDEX archives_complete_idx ON archives (captured_at DESC, id DESC) WHERE wacz_complete;
CREATE INDEX archives_incomplete_idx ON archives (captured_at DESC, id DESC) WHERE NOT wacz_complete;
CREATE INDEX archives_completeness_unknown_idx ON archives (captured_at DESC, id DESC) WHERE wacz_complete IS NULL;

CREATE INDEX capture_targets_org_id_idx ON capture_targets (org_id, id);
ALTER TABLE capture_targets DROP CONSTRAINT capture_targets_url_trimmed;
ALTER TABLE capture_targets ADD CONSTRAINT capture_targets_url_trimmed CHECK (url = btrim(url, E' \t\r\n\f\x0B'));

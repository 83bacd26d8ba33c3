-- The as-issued archive: what was read, when, and every distinct body. Rows are
-- evidence, so nobody changes or removes one: the service's role may only read
-- and insert, and statement-level triggers, enabled always, refuse UPDATE,
-- DELETE and TRUNCATE to everybody, the owner and a superuser included.
-- received_at is the database's own clock; no role may write it, and a trigger
-- sets it whatever was written.

-- +goose Up

-- One row. The operator changes it as muniment_migrate; the service reads it.
CREATE TABLE as_issued_settings (
    only_row       boolean  PRIMARY KEY DEFAULT true CHECK (only_row),
    -- How old fetched_at may be when a read arrives: nobody fills a gap afterwards.
    max_fetch_age  interval NOT NULL DEFAULT '5 minutes' CHECK (max_fetch_age > '0'),
    -- How far a reader's clock may run ahead of the database's.
    max_clock_skew interval NOT NULL DEFAULT '1 second' CHECK (max_clock_skew >= '0')
);
INSERT INTO as_issued_settings DEFAULT VALUES;

-- One row for each distinct body of a product.
CREATE TABLE as_issued_products (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source       text        NOT NULL CHECK (octet_length(source) BETWEEN 1 AND 64),
    -- The request whose read brought this body first.
    request      text        NOT NULL CHECK (octet_length(request) BETWEEN 1 AND 256),
    product_id   text        NOT NULL CHECK (octet_length(product_id) BETWEEN 1 AND 1024),
    -- Tells apart the items of one body that share a product id.
    item_key     text        CHECK (octet_length(item_key) BETWEEN 1 AND 1024),
    -- What the product says; never guessed.
    issued_at    timestamptz,
    received_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    content_hash text        NOT NULL CHECK (content_hash = encode(sha256(convert_to(content_text, 'UTF8')), 'hex')),
    byte_length  bigint      NOT NULL CHECK (byte_length >= 0),
    -- json is canonical JSON (RFC 8785), text is as received, base64 is bytes.
    encoding     text        NOT NULL CHECK (encoding IN ('json', 'text', 'base64')),
    content_text text        NOT NULL
);

-- Begins with the hash, so that it also finds a body by its hash alone.
CREATE UNIQUE INDEX as_issued_products_body_key
    ON as_issued_products (content_hash, source, product_id, item_key) NULLS NOT DISTINCT;
CREATE INDEX as_issued_products_versions_idx ON as_issued_products (source, product_id, id);

-- One row for each complete read of one request of a source.
--
-- What a read held is kept as a chain, so that a read in which nothing changed
-- writes this row and no other: a base holds the whole set of product rows
-- (held), the polls after it name it (base_id) and hold what appeared and
-- disappeared since the poll before. weight counts the chain's changes; when it
-- outgrows the set, the next poll is a new base.
CREATE TABLE as_issued_polls (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source        text        NOT NULL CHECK (octet_length(source) BETWEEN 1 AND 64),
    request       text        NOT NULL CHECK (octet_length(request) BETWEEN 1 AND 256),
    fetched_at    timestamptz NOT NULL,
    received_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    http_status   integer     NOT NULL CHECK (http_status BETWEEN 100 AND 599),
    -- NULL where the server said that nothing had changed (304).
    items_seen    bigint      CHECK (items_seen >= 0),
    items_new     bigint      NOT NULL CHECK (items_new >= 0),
    -- The answer's own headers, as received.
    http_date     text,
    http_age      text,
    http_last_modified text,
    base_id       bigint      REFERENCES as_issued_polls (id),
    held          bigint[],
    appeared      bigint[],
    disappeared   bigint[],
    weight        bigint      NOT NULL DEFAULT 0,
    CHECK (fetched_at <= received_at),
    CHECK (items_seen IS NOT NULL OR items_new = 0),
    CHECK (held IS NULL OR (base_id IS NULL AND appeared IS NULL AND disappeared IS NULL))
);

-- The last poll of a request, in the order of writing.
CREATE INDEX as_issued_polls_chain_idx ON as_issued_polls (source, request, id);
-- The last poll of a request before a moment.
CREATE INDEX as_issued_polls_as_of_idx ON as_issued_polls (source, request, fetched_at, id);
-- A source's day, and its continuity.
CREATE INDEX as_issued_polls_day_idx ON as_issued_polls (source, fetched_at, id);
-- The changes since a base.
CREATE INDEX as_issued_polls_changes_idx ON as_issued_polls (base_id, id)
    WHERE appeared IS NOT NULL OR disappeared IS NOT NULL;

-- A read that held nothing we may keep. Apart from the polls, because a poll is
-- a read that held what it says.
CREATE TABLE as_issued_failed_reads (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source      text        NOT NULL CHECK (octet_length(source) BETWEEN 1 AND 64),
    request     text        NOT NULL CHECK (octet_length(request) BETWEEN 1 AND 256),
    fetched_at  timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- NULL where no answer came.
    http_status integer     CHECK (http_status BETWEEN 100 AND 599),
    reason      text        NOT NULL CHECK (octet_length(reason) BETWEEN 1 AND 2000),
    CHECK (fetched_at <= received_at)
);
CREATE INDEX as_issued_failed_reads_day_idx ON as_issued_failed_reads (source, fetched_at);

-- The minutes in which some archiver was alive: what tells "we were not
-- running" from "we were running and did not read".
CREATE TABLE archiver_minutes (
    minute timestamptz PRIMARY KEY CHECK (minute = date_trunc('minute', minute, 'UTC'))
);

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: the as-issued archive is append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION stamp_product() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.received_at := statement_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- A read is stamped with the database's clock and must be of this moment. Its
-- reader's clock may run ahead a little; what it says is then cut to our time.
-- +goose StatementBegin
CREATE FUNCTION stamp_read() RETURNS trigger LANGUAGE plpgsql SET search_path = feed AS $$
DECLARE
    allowed as_issued_settings;
BEGIN
    SELECT * INTO STRICT allowed FROM as_issued_settings;
    NEW.received_at := statement_timestamp();
    IF NEW.fetched_at > NEW.received_at + allowed.max_clock_skew THEN
        RAISE EXCEPTION 'fetched_at lies in the future'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'fetched_at_not_future', TABLE = TG_TABLE_NAME;
    END IF;
    IF NEW.fetched_at < NEW.received_at - allowed.max_fetch_age THEN
        RAISE EXCEPTION 'fetched_at is more than % past', allowed.max_fetch_age
            USING ERRCODE = 'check_violation', CONSTRAINT = 'fetched_at_not_past', TABLE = TG_TABLE_NAME;
    END IF;
    NEW.fetched_at := least(NEW.fetched_at, NEW.received_at);
    RETURN NEW;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER stamp BEFORE INSERT ON as_issued_products
    FOR EACH ROW EXECUTE FUNCTION stamp_product();
CREATE TRIGGER stamp BEFORE INSERT ON as_issued_polls
    FOR EACH ROW EXECUTE FUNCTION stamp_read();
CREATE TRIGGER stamp BEFORE INSERT ON as_issued_failed_reads
    FOR EACH ROW EXECUTE FUNCTION stamp_read();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON as_issued_products
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON as_issued_polls
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON as_issued_failed_reads
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON archiver_minutes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- ALWAYS: also in a session that plays a replica (session_replication_role).
ALTER TABLE as_issued_products ENABLE ALWAYS TRIGGER stamp, ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE as_issued_polls ENABLE ALWAYS TRIGGER stamp, ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE as_issued_failed_reads ENABLE ALWAYS TRIGGER stamp, ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE archiver_minutes ENABLE ALWAYS TRIGGER append_only;

GRANT SELECT ON as_issued_settings, as_issued_products, as_issued_polls,
    as_issued_failed_reads, archiver_minutes TO muniment_feed;
GRANT INSERT (source, request, product_id, item_key, issued_at, content_hash, byte_length, encoding, content_text)
    ON as_issued_products TO muniment_feed;
GRANT INSERT (source, request, fetched_at, http_status, items_seen, items_new, http_date, http_age,
    http_last_modified, base_id, held, appeared, disappeared, weight)
    ON as_issued_polls TO muniment_feed;
GRANT INSERT (source, request, fetched_at, http_status, reason) ON as_issued_failed_reads TO muniment_feed;
GRANT INSERT (minute) ON archiver_minutes TO muniment_feed;

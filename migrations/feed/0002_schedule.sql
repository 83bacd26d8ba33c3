-- What the pollers need to know between two reads. Working state, not evidence:
-- losing it costs one early read and one unconditional request.

-- +goose Up

-- Who reads a source now and when it is due. A claim ends by itself.
CREATE TABLE source_schedule (
    source        text        PRIMARY KEY,
    next_read_at  timestamptz NOT NULL,
    claimed_by    uuid,
    claimed_until timestamptz,
    CHECK ((claimed_by IS NULL) = (claimed_until IS NULL))
);

-- What makes the next request of this name a conditional one.
CREATE TABLE request_validators (
    source        text   NOT NULL,
    request       text   NOT NULL,
    -- SHA-256 of the URL it belongs to; the URL itself may hold a key.
    url_hash      text   NOT NULL,
    etag          text   NOT NULL,
    last_modified text   NOT NULL,
    -- The poll that it came with: it speaks of that body, and no longer once
    -- another read of the request brought one.
    poll_id       bigint NOT NULL,
    PRIMARY KEY (source, request)
);

GRANT SELECT, INSERT, UPDATE ON source_schedule, request_validators TO muniment_feed;
GRANT DELETE ON request_validators TO muniment_feed;

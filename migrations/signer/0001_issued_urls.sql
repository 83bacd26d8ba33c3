-- Every URL that was given out, and to whom: committed before the URL leaves,
-- so that none is in the world without a row here. The URL itself is not kept:
-- it is a key to the object for as long as it lives.
--
-- The service may add rows and nothing else, not even read them. Who was given
-- what is for the people who run the database.

-- +goose Up
CREATE TABLE issued_urls (
    id            uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    archive_id    uuid        NOT NULL,
    subject       text        NOT NULL,
    -- As claimed by the token that was shown.
    organizations text[]      NOT NULL,
    -- The certificate through which the call came.
    caller        text        NOT NULL,
    issued_at     timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    -- The version that the URL pins; absent where the bucket keeps none.
    version_id    text,
    -- The request's id in the log lines of every service that took part.
    request_id    text        NOT NULL,
    CHECK (expires_at > issued_at)
);

CREATE INDEX issued_urls_archive_id_idx ON issued_urls (archive_id, issued_at);
CREATE INDEX issued_urls_subject_idx ON issued_urls (subject, issued_at);

GRANT INSERT ON issued_urls TO muniment_signer;

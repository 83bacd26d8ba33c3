-- Sharing and deleting.
--
-- A row leaves archives in one way: by its tombstone. The service may insert a
-- tombstone's three facts that only it knows (which archive, who, when); the
-- database takes the rest from the archive and removes the archive in the same
-- breath. So nobody's role needs the right to delete archives, no archive goes
-- without a trace, and what a tombstone says of the object is what was admitted.
--
-- What has a tombstone never comes back, by any path: archives turns away its
-- task and its object's name. Admissions share one lock, which a deletion holds
-- alone for the moment that it takes. Without it an admission that began before
-- the deletion, and waits for the unique index to let go of the name, would bring
-- it back. One lock, and not one for each task and name: those are taken in
-- whatever order a batch has them, and end in deadlocks.

-- +goose Up
CREATE TABLE tombstones (
    archive_id        uuid        CONSTRAINT tombstones_pkey PRIMARY KEY,
    task_id           uuid        NOT NULL,
    bucket            text        NOT NULL,
    object_key        text        NOT NULL,
    -- The admitted version; NULL where the bucket kept none.
    object_version_id text,
    object_etag       text        NOT NULL,
    sha256            bytea,
    deleted_by        text        NOT NULL CHECK (deleted_by <> ''),
    deleted_at        timestamptz NOT NULL,
    -- The object goes after the row, as soon as the store lets it.
    object_removed_at timestamptz,
    -- Why the object is still there, in the store's words.
    note              text,
    attempts          integer     NOT NULL DEFAULT 0,
    -- NULL where nothing is left to do: it is gone, or locked for good.
    next_attempt_at   timestamptz DEFAULT now(),
    CONSTRAINT tombstones_bucket_object_key_key UNIQUE (bucket, object_key),
    CHECK (object_removed_at IS NULL OR next_attempt_at IS NULL)
);

CREATE INDEX tombstones_task_id_idx ON tombstones (task_id);
CREATE INDEX tombstones_due_idx ON tombstones (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- Who was let in, until when. The engine decides; this is what was asked of it,
-- which a deletion has to take back. An archive with shares cannot go: their
-- tuples would stay.
CREATE TABLE shares (
    archive_id uuid        NOT NULL REFERENCES archives (id),
    subject    text        NOT NULL CHECK (subject <> ''),
    granted_by text        NOT NULL CHECK (granted_by <> ''),
    granted_at timestamptz NOT NULL,
    until      timestamptz NOT NULL,
    PRIMARY KEY (archive_id, subject),
    CHECK (until > granted_at)
);

-- +goose StatementBegin
CREATE FUNCTION archives_before_insert() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('ledger.tombstones', 0));
    IF EXISTS (SELECT FROM ledger.tombstones AS t WHERE t.task_id = NEW.task_id)
        OR EXISTS (SELECT FROM ledger.tombstones AS t WHERE t.bucket = NEW.bucket AND t.object_key = NEW.object_key)
    THEN
        RETURN NULL; -- as for a name that is taken: the row is not inserted
    END IF;
    RETURN NEW;
END;
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Runs with the owner's rights: the service may not delete archives by itself.
CREATE FUNCTION tombstones_before_insert() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('ledger.tombstones', 0));
    DELETE FROM ledger.archives AS a WHERE a.id = NEW.archive_id
    RETURNING a.task_id, a.bucket, a.object_key, a.object_version_id, a.object_etag, a.sha256
        INTO NEW.task_id, NEW.bucket, NEW.object_key, NEW.object_version_id, NEW.object_etag, NEW.sha256;
    IF NOT FOUND THEN
        RETURN NULL; -- no such archive, or another deletion was first
    END IF;
    RETURN NEW;
END;
$$;
-- +goose StatementEnd

CREATE TRIGGER archives_before_insert BEFORE INSERT ON archives
    FOR EACH ROW EXECUTE FUNCTION archives_before_insert();
CREATE TRIGGER tombstones_before_insert BEFORE INSERT ON tombstones
    FOR EACH ROW EXECUTE FUNCTION tombstones_before_insert();
ALTER TABLE archives ENABLE ALWAYS TRIGGER archives_before_insert;
ALTER TABLE tombstones ENABLE ALWAYS TRIGGER tombstones_before_insert;

REVOKE ALL ON FUNCTION archives_before_insert(), tombstones_before_insert() FROM PUBLIC;

GRANT SELECT, INSERT, UPDATE (granted_by, granted_at, until), DELETE ON shares TO muniment_ledger;
GRANT SELECT, INSERT (archive_id, deleted_by, deleted_at),
    UPDATE (object_removed_at, note, attempts, next_attempt_at) ON tombstones TO muniment_ledger;

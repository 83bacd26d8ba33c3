-- Discards: how a row ends that can never be delivered.
--
-- A row that was set aside holds back the later rows of its objects, for ever
-- where nothing can make the engine take it. A person may then discard it: it
-- ends as if it had been delivered, what stands behind it goes on, and this table
-- keeps who said so, when, why and what was lost. The relay inserts the row's id
-- and the person's words; the database ends the row and takes the rest from it in
-- the same breath. So no row is discarded without a trace, none that was not set
-- aside is discarded at all, and no role of a service can change what is written
-- here.

-- +goose Up
CREATE TABLE outbox.discards (
    row_id       bigint      CONSTRAINT discards_pkey PRIMARY KEY,
    -- Who: the certificate that spoke, and the person in whose name it did.
    certificate  text        NOT NULL CHECK (certificate <> ''),
    person       text        NOT NULL CHECK (btrim(person) <> ''),
    reason       text        NOT NULL CHECK (btrim(reason) <> ''),
    -- From the row, which may be archived away later.
    discarded_at timestamptz NOT NULL,
    created_at   timestamptz NOT NULL,
    payload      jsonb       NOT NULL,
    -- Why the engine did not take it.
    refusal      text        NOT NULL
);

COMMENT ON TABLE outbox.discards IS
    'Rows of the outbox that a person gave up, for ever. What they held never reached OpenFGA.';

-- +goose StatementBegin
-- Runs with the owner's rights: what it writes is nobody else's to write.
CREATE FUNCTION outbox.discards_before_insert() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE outbox.fga_outbox AS r
       SET processed_at = clock_timestamp(), dead_at = NULL
     WHERE r.id = NEW.row_id AND r.processed_at IS NULL AND r.dead_at IS NOT NULL
    RETURNING r.processed_at, r.created_at, r.payload, r.last_error
         INTO NEW.discarded_at, NEW.created_at, NEW.payload, NEW.refusal;
    IF NOT FOUND THEN
        RETURN NULL; -- not set aside, or not any more
    END IF;
    RETURN NEW;
END;
$$;
-- +goose StatementEnd

CREATE TRIGGER discards_before_insert BEFORE INSERT ON outbox.discards
    FOR EACH ROW EXECUTE FUNCTION outbox.discards_before_insert();
ALTER TABLE outbox.discards ENABLE ALWAYS TRIGGER discards_before_insert;

REVOKE ALL ON FUNCTION outbox.discards_before_insert() FROM PUBLIC;

GRANT INSERT (row_id, certificate, person, reason) ON outbox.discards TO muniment_relay;

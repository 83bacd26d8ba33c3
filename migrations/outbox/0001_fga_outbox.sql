-- +goose Up
-- The outbox: tuples that must reach OpenFGA, queued in the transaction that
-- makes them true. No transaction spans Postgres and the engine, so a row here
-- is the promise, and the relay keeps it: at least once, and in order for each
-- object.
--
-- Order. A row's keys are the objects of its tuples and the capture jobs they
-- name. Rows that share a key are delivered by ascending id, so for one key the
-- order of ids has to be the order of commits. An identity value alone does not
-- give that: it is drawn before any trigger runs, so a writer may draw 1, wait,
-- and commit after the one who drew 2. The trigger below therefore first takes
-- a lock for each key, held until the transaction ends, and draws the id only
-- then (it replaces the one drawn by the identity default, which leaves gaps and
-- nothing else). Whoever holds a later id for a key drew it after every earlier
-- holder had committed or rolled back; and since Postgres makes a commit visible
-- before it frees the locks, who sees the later row sees the earlier one too.
-- This holds in every isolation level: nothing is read under the lock.
--
-- The sequence must keep CACHE 1: cached values are handed out per session.

CREATE TABLE outbox.fga_outbox (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload         jsonb NOT NULL,
    -- Derived by the trigger, whoever inserts.
    keys            text[] COLLATE "C" NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    processed_at    timestamptz,
    -- Deliveries that the engine refused; an engine that is away costs none.
    attempts        integer NOT NULL DEFAULT 0,
    last_error      text,
    next_attempt_at timestamptz,
    -- Set aside: needs a person. Later rows of its keys wait behind it.
    dead_at         timestamptz,
    -- Who delivers it now, and until when nobody else may. A holder that dies
    -- leaves the row to the others when the time is over.
    claim           uuid,
    claimed_until   timestamptz,
    -- How many of its tuples have landed (deletes first, in the payload's order,
    -- repeats left out), for a row that is too large for one request.
    tuples_done     integer NOT NULL DEFAULT 0,

    CONSTRAINT fga_outbox_attempts_check CHECK (attempts >= 0 AND tuples_done >= 0),
    CONSTRAINT fga_outbox_one_end_check CHECK (processed_at IS NULL OR dead_at IS NULL),
    CONSTRAINT fga_outbox_dead_has_reason_check CHECK (dead_at IS NULL OR last_error IS NOT NULL),
    CONSTRAINT fga_outbox_claim_check CHECK ((claim IS NULL) = (claimed_until IS NULL)),
    CONSTRAINT fga_outbox_ended_is_free_check CHECK (claim IS NULL OR (processed_at IS NULL AND dead_at IS NULL))
) WITH (
    -- Room on the page lets a claim update in place of touching the indexes, and
    -- a queue's dead rows are cleared long before a fifth of its history changed.
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_analyze_scale_factor = 0.02
);

COMMENT ON TABLE outbox.fga_outbox IS
    'Tuples for OpenFGA, queued with the rows they belong to. Delivered rows stay as evidence.';

-- The queue itself: delivered rows are in none of these, so that claiming costs
-- the same however long the history is.
CREATE INDEX fga_outbox_waiting_idx ON outbox.fga_outbox (id)
    WHERE processed_at IS NULL AND dead_at IS NULL;
-- Answers "does an earlier row of one of these keys still wait?", dead ones
-- included. No pending list: it would be walked on every look.
CREATE INDEX fga_outbox_undelivered_keys_idx ON outbox.fga_outbox USING gin (keys)
    WITH (fastupdate = off)
    WHERE processed_at IS NULL;
CREATE INDEX fga_outbox_dead_idx ON outbox.fga_outbox (id)
    WHERE processed_at IS NULL AND dead_at IS NOT NULL;

-- +goose StatementBegin
-- What the engine could never take is refused here: the shape, an empty row, and
-- names longer than it allows. What depends on the model (an unknown relation)
-- or on the engine's own grammar is the relay's to find, and to set aside.
-- The trigger asks, not a CHECK, which would look at every payload anew each time
-- the relay touches a row; nobody's role may change a payload.
CREATE FUNCTION outbox.fga_outbox_payload_is_valid(payload jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE
        WHEN jsonb_typeof(payload) <> 'object' THEN false
        WHEN payload - 'writes' - 'deletes' <> '{}' THEN false
        WHEN coalesce(jsonb_typeof(payload -> 'writes'), 'array') <> 'array' THEN false
        WHEN coalesce(jsonb_typeof(payload -> 'deletes'), 'array') <> 'array' THEN false
        WHEN NOT jsonb_path_exists(payload, '$.*[*]') THEN false
        ELSE NOT EXISTS (
            SELECT 1
              FROM jsonb_path_query(payload, '$.*[*]') AS tuple
             WHERE jsonb_typeof(tuple) <> 'object'
                OR jsonb_typeof(tuple -> 'user') IS DISTINCT FROM 'string'
                OR jsonb_typeof(tuple -> 'relation') IS DISTINCT FROM 'string'
                OR jsonb_typeof(tuple -> 'object') IS DISTINCT FROM 'string'
                OR char_length(tuple ->> 'user') NOT BETWEEN 2 AND 512
                OR char_length(tuple ->> 'relation') NOT BETWEEN 1 AND 50
                OR char_length(tuple ->> 'object') NOT BETWEEN 2 AND 256
        )
    END;
END;
-- +goose StatementEnd

-- +goose StatementBegin
-- The ordering keys of a payload, sorted: each tuple's object, and each capture
-- job that stands on the user side (capture_job:<task> parent archive:<id>).
CREATE FUNCTION outbox.fga_outbox_keys(payload jsonb) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(array_agg(DISTINCT key COLLATE "C" ORDER BY key COLLATE "C"), '{}')
      FROM (
            SELECT tuple ->> 'object' AS key
              FROM jsonb_path_query(payload, '$.*[*]') AS tuple
            UNION ALL
            SELECT split_part(tuple ->> 'user', '#', 1)
              FROM jsonb_path_query(payload, '$.*[*]') AS tuple
             WHERE tuple ->> 'user' LIKE 'capture\_job:%'
           ) AS named
     WHERE key IS NOT NULL;
END;
-- +goose StatementEnd

-- +goose StatementBegin
-- Runs with the owner's rights: the writers may not touch the sequence.
--
-- The locks are 4096 slots over the hash of a key, not one lock for each key: the
-- shared lock table has room for some thousands, and one statement that queues
-- ten thousand rows would fill it. Two objects in one slot wait for each other
-- now and then, which costs a moment and breaks nothing. A row takes its slots in
-- ascending order; a transaction that queues several rows for several objects can
-- still meet another one crosswise, and Postgres then ends one of the two with a
-- deadlock error, which is safe to try again. Queue last in a transaction.
CREATE FUNCTION outbox.fga_outbox_before_insert() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    slot integer;
BEGIN
    IF NOT outbox.fga_outbox_payload_is_valid(NEW.payload) THEN
        RAISE check_violation USING
            MESSAGE = 'the payload is not a list of tuples that could be delivered',
            DETAIL = 'Wanted: {"writes":[{"user","relation","object","condition"?}],"deletes":[{"user","relation","object"}]}, '
                'at least one tuple, user of 2 to 512, relation of 1 to 50, object of 2 to 256 characters.',
            SCHEMA = 'outbox', TABLE = 'fga_outbox', CONSTRAINT = 'fga_outbox_payload_check';
    END IF;
    NEW.keys := outbox.fga_outbox_keys(NEW.payload);
    FOR slot IN
        SELECT DISTINCT (hashtextextended(key, 0) & 4095)::integer AS s FROM unnest(NEW.keys) AS key ORDER BY s
    LOOP
        -- 1179074895 spells "FGAO": the two-number form keeps these apart from
        -- everybody else's advisory locks.
        PERFORM pg_advisory_xact_lock(1179074895, slot);
    END LOOP;
    NEW.id := nextval('outbox.fga_outbox_id_seq');
    RETURN NEW;
END;
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- A hint for relays that listen; the relay polls all the same.
CREATE FUNCTION outbox.fga_outbox_after_insert() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_notify('fga_outbox', '');
    RETURN NULL;
END;
$$;
-- +goose StatementEnd

CREATE TRIGGER fga_outbox_before_insert BEFORE INSERT ON outbox.fga_outbox
    FOR EACH ROW EXECUTE FUNCTION outbox.fga_outbox_before_insert();
CREATE TRIGGER fga_outbox_after_insert AFTER INSERT ON outbox.fga_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION outbox.fga_outbox_after_insert();
-- Not even a session in replica mode inserts without its keys and its turn.
ALTER TABLE outbox.fga_outbox ENABLE ALWAYS TRIGGER fga_outbox_before_insert;

REVOKE ALL ON FUNCTION outbox.fga_outbox_payload_is_valid(jsonb), outbox.fga_outbox_keys(jsonb),
    outbox.fga_outbox_before_insert(), outbox.fga_outbox_after_insert() FROM PUBLIC;

-- The one right that a service holds in another's schema: the ledger may queue.
-- It names the payload and nothing else, and reads nothing back.
GRANT USAGE ON SCHEMA outbox TO muniment_ledger, muniment_relay;
GRANT INSERT (payload) ON outbox.fga_outbox TO muniment_ledger;

-- The relay moves a row's state. It can neither queue, nor rewrite what was
-- queued, nor remove the evidence; archiving old rows is the owner's.
GRANT SELECT ON outbox.fga_outbox TO muniment_relay;
GRANT UPDATE (processed_at, attempts, last_error, next_attempt_at, dead_at, claim, claimed_until, tuples_done)
    ON outbox.fga_outbox TO muniment_relay;

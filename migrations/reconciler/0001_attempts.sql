-- What the reconciler has tried. The list of holes itself is the ledger's; this
-- table only says who works on one now, how often it was tried, and when it is
-- due again, so that many replicas share the work and a killed one's claim
-- frees itself.

-- +goose Up
CREATE TABLE attempts (
    task_id         uuid        PRIMARY KEY,
    attempts        integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    claimed_until   timestamptz NOT NULL,
    next_attempt_at timestamptz NOT NULL,
    last_reason     text,
    -- admitted, already or never; absent while the hole is open.
    outcome         text        CHECK (outcome IN ('admitted', 'already', 'never')),
    finished_at     timestamptz,
    created_at      timestamptz NOT NULL DEFAULT now(),
    CHECK ((outcome IS NULL) = (finished_at IS NULL))
);

GRANT SELECT, INSERT, UPDATE ON attempts TO muniment_reconciler;

-- name: Discard :execrows
-- The trigger ends the row and fills in what it held; it inserts nothing where
-- the row is not set aside.
INSERT INTO outbox.discards (row_id, certificate, person, reason)
VALUES (sqlc.arg(row_id), sqlc.arg(certificate), sqlc.arg(person), sqlc.arg(reason));

-- For sqlc alone: bootstrap.sql makes the schema, which the migrations expect.
CREATE SCHEMA outbox;

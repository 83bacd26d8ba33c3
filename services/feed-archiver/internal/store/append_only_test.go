package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/testkit"
)

var evidence = []string{"as_issued_products", "as_issued_polls", "as_issued_failed_reads", "archiver_minutes"}

// fill puts one row into each table of evidence, as the service.
func fill(t *testing.T, feed *pgxpool.Pool) {
	t.Helper()
	for _, statement := range []string{
		`INSERT INTO as_issued_products (source, request, product_id, content_hash, byte_length, encoding, content_text)
		 VALUES ('demo', 'r', 'p', encode(sha256('{}'), 'hex'), 2, 'json', '{}')`,
		`INSERT INTO as_issued_polls (source, request, fetched_at, http_status, items_seen, items_new) VALUES ('demo', 'r', now(), 200, 0, 0)`,
		`INSERT INTO as_issued_failed_reads (source, request, fetched_at, reason) VALUES ('demo', 'r', now(), 'x')`,
		`INSERT INTO archiver_minutes (minute) VALUES (date_trunc('minute', now(), 'UTC'))`,
	} {
		if _, err := feed.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// Nobody changes or removes a row: not the service, not the owner, not a
// superuser, not a session that plays a replica, not by an upsert.
func TestAppendOnly(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	fill(t, db.Pool(t, "feed"))
	for role, code := range map[string]string{"feed": "42501", "migrate": "23001", "superuser": "23001"} {
		pool := db.Pool(t, role)
		for _, table := range evidence {
			column := "source"
			if table == "archiver_minutes" {
				column = "minute"
			}
			for _, statement := range []string{
				"UPDATE feed." + table + " SET " + column + " = " + column,
				"UPDATE feed." + table + " SET " + column + " = " + column + " WHERE false",
				"DELETE FROM feed." + table,
				"TRUNCATE feed." + table + " CASCADE",
			} {
				refused(t, pool, role, statement, code)
				if role == "superuser" {
					refused(t, pool, role, "SET LOCAL session_replication_role = replica; "+statement, code)
				}
			}
		}
		refused(t, pool, role, `INSERT INTO feed.archiver_minutes VALUES (date_trunc('minute', now(), 'UTC'))
			ON CONFLICT (minute) DO UPDATE SET minute = excluded.minute`, code)
	}
	for _, table := range evidence {
		var n int
		if err := db.Pool(t, "superuser").QueryRow(t.Context(), "SELECT count(*) FROM feed."+table).Scan(&n); err != nil || n != 1 {
			t.Errorf("%s holds %d rows, %v; want the one", table, n, err)
		}
	}
}

func refused(t *testing.T, pool *pgxpool.Pool, role, statement, code string) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	// The simple protocol takes several statements as one transaction.
	_, err = conn.Conn().PgConn().Exec(t.Context(), statement).ReadAll()
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != code {
		t.Errorf("%s: %s: got %v, want SQLSTATE %s", role, statement, err, code)
	}
}

// received_at is the database's: the service cannot name it, and what a
// superuser writes into it is not what stands there.
func TestReceivedAtIsSetByTheDatabase(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	for _, statement := range []string{
		`INSERT INTO feed.as_issued_products (source, request, product_id, content_hash, byte_length, encoding, content_text, received_at)
		 VALUES ('demo', 'r', 'p', encode(sha256('{}'), 'hex'), 2, 'json', '{}', '2020-01-01')`,
		`INSERT INTO feed.as_issued_polls (source, request, fetched_at, http_status, items_seen, items_new, received_at) VALUES ('demo', 'r', now(), 200, 0, 0, '2020-01-01')`,
		`INSERT INTO feed.as_issued_failed_reads (source, request, fetched_at, reason, received_at) VALUES ('demo', 'r', now(), 'x', '2020-01-01')`,
	} {
		refused(t, db.Pool(t, "feed"), "feed", statement, "42501")
		if _, err := db.Pool(t, "superuser").Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		table := strings.Fields(statement)[2]
		var n int
		if err := db.Pool(t, "superuser").QueryRow(t.Context(), "SELECT count(*) FROM "+table+" WHERE received_at > now() - interval '1 minute'").Scan(&n); err != nil || n != 1 {
			t.Errorf("%s: the superuser's received_at stands (%v)", table, err)
		}
	}
}

// The service owns nothing, makes nothing, and touches nothing beyond its rows.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	feed := db.Pool(t, "feed")
	for _, statement := range []string{
		"CREATE TABLE feed.mine (a int)", "CREATE TABLE public.mine (a int)", "CREATE SCHEMA mine", "CREATE TEMP TABLE mine (a int)",
		"ALTER TABLE feed.as_issued_polls DISABLE TRIGGER append_only", "DROP TABLE feed.as_issued_polls",
		"CREATE OR REPLACE FUNCTION feed.refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
		"UPDATE feed.as_issued_settings SET max_fetch_age = '1 year'", "INSERT INTO feed.as_issued_settings DEFAULT VALUES",
		"DELETE FROM feed.source_schedule", "SELECT * FROM ledger.archives", "SELECT * FROM outbox.fga_outbox",
		"INSERT INTO feed.as_issued_polls (id, source, request, fetched_at, http_status, items_seen, items_new) OVERRIDING SYSTEM VALUE VALUES (1, 'demo', 'r', now(), 200, 0, 0)",
	} {
		refused(t, feed, "feed", statement, "42501")
	}
	// A body whose hash is not its own does not get in.
	refused(t, feed, "feed", `INSERT INTO feed.as_issued_products (source, request, product_id, content_hash, byte_length, encoding, content_text)
		VALUES ('demo', 'r', 'p', repeat('a', 64), 2, 'json', '{}')`, "23514")
	for _, role := range []string{"ledger", "signer", "reconciler", "relay"} {
		for _, table := range evidence {
			refused(t, db.Pool(t, role), role, "SELECT count(*) FROM feed."+table, "42501")
		}
	}
}

package migrations_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/muniment/muniment/migrations"
	"github.com/muniment/muniment/pkg/testkit"
)

func TestUpAgainChangesNothing(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	before := read(t, db)
	if err := migrations.Up(context.Background(), db.URL("superuser")); err != nil {
		t.Fatal(err)
	}
	after := read(t, db)
	for i, state := range after {
		if state != before[i] || state.Version != state.Want || state.Version == 0 {
			t.Errorf("schema %s was at %d and is at %d; the newest is %d", state.Schema, before[i].Version, state.Version, state.Want)
		}
	}
}

// Two databases of one cluster share the roles, and one database may meet two
// runs at once.
func TestT45RunsAtOnceDoNotMeet(t *testing.T) {
	t.Parallel()
	one, two := testkit.Postgres(t), testkit.Postgres(t)
	for _, db := range []*testkit.DB{one, two} {
		drop(t, db)
	}
	var runs sync.WaitGroup
	failures := make([]error, 6)
	for i := range failures {
		url := one.URL("superuser")
		if i%2 == 1 {
			url = two.URL("superuser")
		}
		runs.Go(func() { failures[i] = migrations.Up(context.Background(), url) })
	}
	runs.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Fatal(err)
	}
	for _, db := range []*testkit.DB{one, two} {
		for _, state := range read(t, db) {
			if state.Version != state.Want {
				t.Errorf("schema %s is at %d, want %d", state.Schema, state.Version, state.Want)
			}
		}
	}
}

// TestLedgerMayQueueAndNothingElse is the one door between two schemas.
func TestLedgerMayQueueAndNothingElse(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	conn := connect(t, db.URL("ledger"))
	payload := `'{"writes":[{"user":"organization:acme","relation":"parent","object":"capture_job:1"}]}'`
	exec(t, conn, "INSERT INTO outbox.fga_outbox (payload) VALUES ("+payload+")")
	for _, statement := range []string{
		"INSERT INTO outbox.fga_outbox (payload, attempts) VALUES (" + payload + ", 1)",
		"INSERT INTO outbox.fga_outbox (payload, processed_at) VALUES (" + payload + ", now())",
		"INSERT INTO outbox.fga_outbox (payload) VALUES (" + payload + ") RETURNING id",
		"SELECT id FROM outbox.fga_outbox",
		"UPDATE outbox.fga_outbox SET payload = " + payload,
		"DELETE FROM outbox.fga_outbox",
	} {
		refused(t, conn, statement)
	}
}

// TestServicesOwnNothing keeps a service from altering, or dropping the triggers
// of, what it writes to.
func TestServicesOwnNothing(t *testing.T) {
	t.Parallel()
	conn := connect(t, testkit.Postgres(t).URL("superuser"))
	rows, err := conn.Query(context.Background(), `
		SELECT n.nspname || '.' || c.relname FROM pg_class c
		  JOIN pg_namespace n ON n.oid = c.relnamespace
		 WHERE n.nspname = ANY($1) AND pg_get_userbyid(c.relowner) <> 'muniment_migrate'
		UNION ALL
		SELECT 'schema ' || nspname FROM pg_namespace
		 WHERE nspname = ANY($1) AND pg_get_userbyid(nspowner) <> 'muniment_migrate'`, schemaNames())
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if len(wrong) > 0 {
		t.Errorf("not owned by muniment_migrate: %s", strings.Join(wrong, ", "))
	}
}

func schemaNames() []string {
	var names []string
	for _, s := range migrations.Schemas {
		names = append(names, s.Name)
	}
	return names
}

func read(t *testing.T, db *testkit.DB) []migrations.Status {
	t.Helper()
	states, err := migrations.Read(context.Background(), db.URL("superuser"))
	if err != nil {
		t.Fatal(err)
	}
	return states
}

// drop empties a database, so that the next run makes everything.
func drop(t *testing.T, db *testkit.DB) {
	t.Helper()
	conn := connect(t, db.URL("superuser"))
	for _, name := range schemaNames() {
		exec(t, conn, "DROP SCHEMA "+name+" CASCADE")
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), statement); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}

// refused wants SQLSTATE 42501, insufficient privilege, and nothing else.
func refused(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	_, err := conn.Exec(context.Background(), statement)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
		t.Errorf("%s: got %v, want insufficient privilege", statement, err)
	}
}

package pg_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/pkg/testkit"
)

// T45: a service says which version it wants, on a schema that is too old and
// on a database that nobody migrated.
func TestT45SchemaTooOld(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	pool := db.Pool(t, "reconciler")
	if err := pg.RequireSchema(t.Context(), pool, "reconciler", 1); err != nil {
		t.Fatal(err)
	}
	err := pg.RequireSchema(t.Context(), pool, "reconciler", 1000)
	if !errors.Is(err, pg.ErrSchemaTooOld) || !strings.Contains(err.Error(), "wants 1000") {
		t.Fatalf("got %v", err)
	}
	if _, err := db.Pool(t, "superuser").Exec(t.Context(), "DROP SCHEMA reconciler CASCADE"); err != nil {
		t.Fatal(err)
	}
	if err := pg.RequireSchema(t.Context(), pool, "reconciler", 1); !errors.Is(err, pg.ErrSchemaTooOld) {
		t.Fatalf("got %v", err)
	}
}

// T44: a migration that changes a statement's result while it is prepared costs
// one repetition, which nobody sees.
func TestT44StalePlanIsRetriedOnce(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	admin := db.Pool(t, "superuser")
	settings := config.Database{URL: db.URL("superuser"), MaxConns: 2, Mode: "prepared"}
	pool, err := pg.Open(t.Context(), settings, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	exec := func(sql string) {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE public.changing (a int)")
	read := func(ctx context.Context) error {
		rows, err := pool.Query(ctx, "SELECT * FROM public.changing") //nolint:unqueryvet // its result must change with the table
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	}
	if err := read(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec("ALTER TABLE public.changing ADD COLUMN b text")
	if err := pg.Retry(t.Context(), read); err != nil {
		t.Fatal(err)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	nobody, err := pg.Open(t.Context(), config.Database{URL: "postgres://u:hush@127.0.0.1:1/db", MaxConns: 2, Mode: "exec"}, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nobody.Close)
	if err := pg.Classify(nobody.Ping(t.Context())); !errors.Is(err, rpcerr.ErrUnavailable) {
		t.Errorf("a database that refuses: %v", err)
	}
	pool := testkit.Postgres(t).Pool(t, "ledger")
	_, err = pool.Exec(t.Context(), "SELECT 1/0")
	if err = pg.Classify(err); err == nil || errors.Is(err, rpcerr.ErrUnavailable) {
		t.Errorf("an error of ours: %v", err)
	}
	_, err = pool.Exec(t.Context(), "SET statement_timeout = '10ms'; SELECT pg_sleep(5)", pgx.QueryExecModeSimpleProtocol)
	if err = pg.Classify(err); !errors.Is(err, rpcerr.ErrUnavailable) {
		t.Errorf("a statement over its limit: %v", err)
	}
	if err := pg.Classify(pgx.ErrNoRows); !errors.Is(err, pgx.ErrNoRows) || errors.Is(err, rpcerr.ErrUnavailable) {
		t.Errorf("no rows: %v", err)
	}
}

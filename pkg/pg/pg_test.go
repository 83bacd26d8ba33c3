package pg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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

// Two transactions that meet crosswise: Postgres ends one of them, and it runs
// anew.
func TestADeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	pool := testkit.Postgres(t).Pool(t, "superuser")
	if _, err := pool.Exec(t.Context(), "CREATE TABLE public.crossing (id int PRIMARY KEY, n int); INSERT INTO public.crossing VALUES (1, 0), (2, 0)"); err != nil {
		t.Fatal(err)
	}
	var met, both sync.WaitGroup
	met.Add(2)
	tries := make([]int, 2)
	for i, order := range [][]int{{1, 2}, {2, 1}} {
		both.Go(func() {
			err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
				for step, id := range order {
					if _, err := tx.Exec(t.Context(), "UPDATE public.crossing SET n = n + 1 WHERE id = $1", id); err != nil {
						return fmt.Errorf("counting: %w", err)
					}
					if tries[i]++; step == 0 && tries[i] == 1 {
						met.Done()
						met.Wait()
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("the one that begins with %d: %v", order[0], err)
			}
		})
	}
	both.Wait()
	var sum int
	if err := pool.QueryRow(t.Context(), "SELECT sum(n) FROM public.crossing").Scan(&sum); err != nil || sum != 4 {
		t.Errorf("counted to %d, %v", sum, err)
	}
	if tries[0]+tries[1] < 5 {
		t.Errorf("%d steps were taken: no deadlock, so this shows nothing", tries[0]+tries[1])
	}
}

func TestRetryGivesUp(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{"40P01": 4, "40001": 4, "0A000": 2, "23505": 1, "57014": 1} {
		tries := 0
		err := pg.Retry(t.Context(), func(context.Context) error {
			tries++
			return fmt.Errorf("writing: %w", &pgconn.PgError{Code: code})
		})
		if err == nil || tries != want {
			t.Errorf("%s: %d tries, %v; want %d", code, tries, err, want)
		}
	}
}

// A connection that ends under a statement is the database being away, and not
// a fault of ours: cut in the middle of a reply, reset, closed by the server.
func TestAConnectionThatEndsIsUnavailable(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	proxy := testkit.NewProxy(t, db.URL("superuser"))
	pool, err := pg.Open(t.Context(), config.Database{URL: proxy.URL, MaxConns: 2, Mode: "prepared"}, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	long := func() error {
		var text string
		return pg.Retry(t.Context(), func(ctx context.Context) error {
			return pool.QueryRow(ctx, "SELECT repeat('x', 1000000)").Scan(&text)
		})
	}
	if err := long(); err != nil {
		t.Fatal(err)
	}
	for kind, attributes := range map[string]string{"limit_data": `{"bytes":5000}`, "reset_peer": `{"timeout":0}`} {
		proxy.Toxic(kind, "downstream", attributes)
		if err := long(); !errors.Is(err, rpcerr.ErrUnavailable) {
			t.Errorf("%s: %v", kind, err)
		}
		proxy.Heal(kind)
		if err := long(); err != nil {
			t.Errorf("after %s: %v", kind, err)
		}
	}
	for _, ended := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, pgconn.ErrConnClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if err := pg.Classify(fmt.Errorf("reading: %w", ended)); !errors.Is(err, rpcerr.ErrUnavailable) || !errors.Is(err, ended) {
			t.Errorf("%v becomes %v", ended, err)
		}
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

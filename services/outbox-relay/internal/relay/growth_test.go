package relay_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
)

// Before it writes, the engine looks whether the tuples are there. With the
// generic plan that Postgres comes to prefer after a few times, that walks all
// tuples of the store; with plan_cache_mode=force_custom_plan in the engine's
// database URL it does not. The deployment's engine, which this test runs on,
// has the setting; a second one on the same database is started without.
func TestOneOrganizationMayGrow(t *testing.T) {
	s := newStack(t)
	jobs := testkit.Soak(20_000, 50_000)
	s.jobs(t, 0, jobs)
	deployed := s.writeTime(t, s.client, jobs)
	without := s.writeTime(t, s.clientVia(t, s.engineWithout(t)), 2*jobs)
	t.Logf("%d jobs there: one capture is written in %s, and in %s without the setting", jobs, deployed, without)
	if without < 2*deployed {
		t.Errorf("with %d jobs there a write takes %s on the deployment's engine and %s without plan_cache_mode=force_custom_plan: either the deployment does not set it, or it is needed no more",
			jobs, deployed, without)
	}
}

// writeTime is the shortest of several writes of one capture, once Postgres has
// made up its mind about the plan: what else the machine does only adds to it.
func (s *stack) writeTime(t *testing.T, to *fga.Client, from int) time.Duration {
	t.Helper()
	var took []time.Duration
	for n := range 30 {
		began := time.Now()
		if err := to.Write(t.Context(), capture(from+n, "acme", "alice").Writes, nil); err != nil {
			t.Fatal(err)
		}
		if n >= 15 {
			took = append(took, time.Since(began))
		}
	}
	return slices.Min(took)
}

// engineWithout starts an engine on the same database without the setting.
func (s *stack) engineWithout(t *testing.T) string {
	t.Helper()
	var program string
	for dir := "."; ; dir = filepath.Join("..", dir) {
		program = filepath.Join(dir, ".local", "engines", "openfga")
		if _, err := os.Stat(program); err == nil {
			break
		}
		if full, err := filepath.Abs(dir); err != nil || full == "/" {
			t.Skip("the engine's program is not in .local/engines; 'make test' builds it")
		}
	}
	http1, grpc1 := testkit.FreeAddress(t), testkit.FreeAddress(t)
	cmd := exec.Command(program, "run", "--http-addr", http1, "--grpc-addr", grpc1,
		"--playground-enabled=false", "--profiler-enabled=false", "--metrics-enabled=false", "--log-level", "error")
	cmd.Env = []string{"OPENFGA_DATASTORE_ENGINE=postgres", "OPENFGA_DATASTORE_MAX_OPEN_CONNS=2", "OPENFGA_DATASTORE_URI=" + s.engineDatabase(t)}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting a second engine: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		reply, err := http.Get("http://" + http1 + "/healthz")
		if err != nil {
			return false, err.Error()
		}
		_ = reply.Body.Close()
		return reply.StatusCode == http.StatusOK, reply.Status
	})
	return "http://" + http1
}

// engineDatabase is the URL of the database that the tests' engine keeps its
// stores in, on the tests' own server.
func (s *stack) engineDatabase(t testing.TB) string {
	t.Helper()
	names, err := s.db.Pool(t, "superuser").Query(t.Context(), "SELECT datname FROM pg_database WHERE datname LIKE 'openfga%'")
	if err != nil {
		t.Fatal(err)
	}
	candidates, err := pgx.CollectRows(names, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(s.db.URL("superuser"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range candidates {
		u.Path = "/" + name
		var ours bool
		s.inEngineDatabase(t, u.String(), func(conn *pgx.Conn) error {
			return conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM store WHERE id = $1)", s.engine.StoreID).Scan(&ours)
		})
		if ours {
			return u.String()
		}
	}
	t.Fatalf("none of the databases %q is the engine's", candidates)
	return ""
}

func (s *stack) inEngineDatabase(t testing.TB, url string, work func(*pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := work(conn); err != nil {
		t.Fatalf("in the engine's database: %v", err)
	}
}

// jobs gives organization acme the captures from..from+n, past the engine, and
// lets Postgres count them. While Postgres knows nothing of a store, each write
// walks all its tuples whatever the settings are; autovacuum ends that within a
// minute.
func (s *stack) jobs(t testing.TB, from, n int) {
	t.Helper()
	var rows [][]any
	for i := range n {
		for _, tuple := range capture(from+i, "acme", "alice").Writes {
			kind, id, _ := strings.Cut(tuple.Object, ":")
			rows = append(rows, []any{s.engine.StoreID, kind, id, tuple.Relation, tuple.User, "user", rand.Text(), time.Now()})
		}
	}
	columns := []string{"store", "object_type", "object_id", "relation", "_user", "user_type", "ulid", "inserted_at"}
	s.inEngineDatabase(t, s.engineDatabase(t), func(conn *pgx.Conn) error {
		if _, err := conn.CopyFrom(t.Context(), pgx.Identifier{"tuple"}, columns, pgx.CopyFromRows(rows)); err != nil {
			return fmt.Errorf("filling: %w", err)
		}
		_, err := conn.Exec(t.Context(), "ANALYZE tuple")
		return err
	})
}

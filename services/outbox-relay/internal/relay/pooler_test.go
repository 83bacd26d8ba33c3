package relay_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

// The relay's statements work without prepared ones (mode exec), behind a pooler
// that hands each transaction to another connection, and on while a migration
// changes the table under prepared ones.
func TestT44QueryModes(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, s *stack) config.Database{
		"prepared": func(_ *testing.T, s *stack) config.Database {
			return config.Database{URL: s.db.URL("relay"), MaxConns: 4, Mode: "prepared"}
		},
		"exec": func(_ *testing.T, s *stack) config.Database {
			return config.Database{URL: s.db.URL("relay"), MaxConns: 4, Mode: "exec"}
		},
		"pgbouncer": func(t *testing.T, s *stack) config.Database {
			return config.Database{URL: pooler(t, s.db.URL("relay")), MaxConns: 20, Mode: "exec"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			pool, err := pg.Open(context.Background(), open(t, s), "test")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			s.queue = store.New(pool)
			settings := quick()
			settings.Workers, settings.BatchRows = 10, 5
			s.start(t, s.client, settings)
			s.start(t, s.client, settings)
			var want []fga.Tuple
			for n := range 30 {
				if n == 15 {
					if _, err := s.db.Pool(t, "superuser").Exec(t.Context(), "ALTER TABLE outbox.fga_outbox ADD COLUMN later text"); err != nil {
						t.Fatal(err)
					}
				}
				change := capture(n, "acme", "alice")
				want = append(want, change.Writes...)
				s.insert(t, change)
			}
			s.insert(t, payload{Writes: []fga.Tuple{{User: "user:eve", Relation: "nope", Object: job(99)}}})
			s.drained(t, 30*time.Second)
			s.holds(t, want...)
			if dead, err := s.queue.ListDead(t.Context(), 0, 10); err != nil || len(dead) != 1 {
				t.Errorf("dead rows: %v, %v", dead, err)
			}
		})
	}
}

// pooler starts pgbouncer in transaction mode in front of the database, with
// five connections for all, and returns its URL. Without pgbouncer the test is
// skipped.
func pooler(t *testing.T, direct string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not installed")
	}
	server, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(lis.Addr().String())
	_ = lis.Close()

	password, _ := server.User.Password()
	database := server.Path[1:]
	settings := fmt.Sprintf(`[databases]
%s = host=%s port=%s dbname=%s user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
`, database, server.Hostname(), server.Port(), database, server.User.Username(), password, port)
	file := filepath.Join(t.TempDir(), "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{file}
	if self, err := user.Current(); err == nil && self.Uid == "0" {
		args = []string{"-u", "nobody", file} // it refuses to run as root
	}
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting pgbouncer: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return false, err.Error()
		}
		_ = conn.Close()
		return true, ""
	})
	return fmt.Sprintf("postgres://%s@127.0.0.1:%s/%s?sslmode=disable", server.User.Username(), port, database)
}

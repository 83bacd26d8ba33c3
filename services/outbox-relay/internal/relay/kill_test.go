package relay_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
)

// process is a relay in a process of its own.
type process struct {
	cmd *exec.Cmd
}

// environment are a relay process's settings: short times, small claims.
func (s *stack) environment(t *testing.T, engineURL string, more ...string) []string {
	t.Helper()
	files := testkit.Certificates(t).Files("outbox-relay")
	return append([]string{
		"MUNIMENT_RELAY_GRPC_ADDRESS=127.0.0.1:0",
		"MUNIMENT_RELAY_DEBUG_ADDRESS=127.0.0.1:0",
		"MUNIMENT_RELAY_TLS_CERT_FILE=" + files.Cert,
		"MUNIMENT_RELAY_TLS_KEY_FILE=" + files.Key,
		"MUNIMENT_RELAY_TLS_CA_FILE=" + files.CA,
		"MUNIMENT_RELAY_DATABASE_URL=" + s.db.URL("relay"),
		"MUNIMENT_RELAY_DATABASE_MAX_CONNS=4",
		"MUNIMENT_RELAY_OPENFGA_API_URL=" + engineURL,
		"MUNIMENT_RELAY_OPENFGA_STORE_ID=" + s.engine.StoreID,
		"MUNIMENT_RELAY_OPENFGA_MODEL_ID=" + s.engine.ModelID,
		"MUNIMENT_RELAY_OPENFGA_TIMEOUT=1s",
		"MUNIMENT_RELAY_SETTLE=1s",
		"MUNIMENT_RELAY_LEASE=3s",
		"MUNIMENT_RELAY_POLL_INTERVAL=500ms",
		"MUNIMENT_RELAY_WORKERS=2",
		"MUNIMENT_RELAY_BATCH_ROWS=4",
		"MUNIMENT_RELAY_DRAIN_DELAY=10ms",
	}, more...)
}

func startProcess(t *testing.T, environ []string) *process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "relay.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testkit.Binary(t, "muniment-outbox-relay"))
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting a relay: %v", err)
	}
	p := &process{cmd: cmd}
	t.Cleanup(func() {
		p.kill()
		_ = log.Close()
		if content, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("a relay's log:\n%s", content[max(0, len(content)-3000):])
		}
	})
	return p
}

// kill is kill -9: no defer runs, no row is given back.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Relay processes are killed at random while objects change, behind a proxy that
// delays the requests unevenly: after each run the engine holds what the last
// row of each object says. Stated volume: 200 objects, five relays, twenty runs.
func TestOrderSurvivesKills(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := testkit.NewProxy(t, s.engine.APIURL)
	p.Toxic("latency", "upstream", `{"latency":15,"jitter":15}`)
	environ := s.environment(t, p.URL)
	relays := make([]*process, testkit.Soak(3, 5))
	for i := range relays {
		relays[i] = startProcess(t, environ)
	}
	objects := testkit.Soak(20, 200)
	for run := range testkit.Soak(2, 20) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.writeHistory(t, run*objects, objects, 6)
		}()
		for kills := 0; ; kills++ {
			select {
			case <-done:
			default:
			}
			i := rand.IntN(len(relays))
			time.Sleep(time.Duration(50+rand.IntN(300)) * time.Millisecond)
			relays[i].kill()
			relays[i] = startProcess(t, environ)
			stats, err := s.queue.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if kills >= 3 && stats.Waiting == 0 || kills == 10 {
				break
			}
		}
		<-done
		s.drained(t, 2*time.Minute)
		s.holds(t, s.replay(t)...)
		if t.Failed() {
			t.Fatalf("in run %d", run)
		}
	}
	for _, r := range s.rows(t) {
		if r.attempts != 0 {
			t.Errorf("row %d was refused: %s", r.id, r.reason)
		}
	}
}

// A relay is killed in the middle of a row of several requests; another one
// goes on where it stood, when the lease is over.
func TestT28KilledHolderFreesItsRow(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := testkit.NewProxy(t, s.engine.APIURL)
	p.Toxic("latency", "downstream", `{"latency":300}`)
	var row payload
	for n := range 150 {
		row.Writes = append(row.Writes, owner("alice", n))
	}
	environ := s.environment(t, p.URL, "MUNIMENT_RELAY_TUPLES_PER_REQUEST=10")
	holder := startProcess(t, environ)
	s.insert(t, row)
	done := 0
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		err := s.relay.QueryRow(t.Context(), "SELECT tuples_done FROM outbox.fga_outbox").Scan(&done)
		return done >= 20, fmt.Sprintf("%d tuples done, %v", done, err)
	})
	holder.kill()
	if done >= 150 {
		t.Fatal("the row was delivered before the kill")
	}
	startProcess(t, environ)
	s.drained(t, 30*time.Second)
	s.holds(t, row.Writes...)
}

// SIGTERM with a row in the making: the request under way is finished, the rest
// is given back at once, and another relay need not wait for the lease.
func TestShutdownGivesRowsBack(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := testkit.NewProxy(t, s.engine.APIURL)
	p.Toxic("latency", "downstream", `{"latency":300}`)
	var want []fga.Tuple
	for n := range 40 {
		want = append(want, owner("alice", n))
		s.insert(t, payload{Writes: want[n:]})
	}
	environ := s.environment(t, p.URL, "MUNIMENT_RELAY_TUPLES_PER_REQUEST=1", "MUNIMENT_RELAY_BATCH_ROWS=40", "MUNIMENT_RELAY_LEASE=10m")
	first := startProcess(t, environ)
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		stats, err := s.queue.Stats(t.Context())
		return err == nil && stats.Waiting < 38, fmt.Sprintf("%+v %v", stats, err)
	})
	began := time.Now()
	_ = first.cmd.Process.Signal(os.Interrupt)
	if err := first.cmd.Wait(); err != nil {
		t.Errorf("the relay ended with %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("shutting down took %s", took)
	}
	var claimed int
	if err := s.relay.QueryRow(t.Context(), "SELECT count(*) FROM outbox.fga_outbox WHERE claim IS NOT NULL").Scan(&claimed); err != nil || claimed != 0 {
		t.Errorf("%d rows are still claimed, %v", claimed, err)
	}
	startProcess(t, s.environment(t, s.engine.APIURL))
	s.drained(t, 20*time.Second)
	s.holds(t, want...)
}

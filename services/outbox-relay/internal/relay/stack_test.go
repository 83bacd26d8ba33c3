package relay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/outbox-relay/internal/relay"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

// stack is a database and an engine of one test.
type stack struct {
	db     *testkit.DB
	ledger *pgxpool.Pool // queues, as in production
	relay  *pgxpool.Pool
	engine testkit.FGA
	client *fga.Client
	queue  *store.Store
}

func newStack(t testing.TB) *stack {
	t.Helper()
	db := testkit.Postgres(t)
	engine := testkit.OpenFGA(t)
	s := &stack{db: db, ledger: db.Pool(t, "ledger"), relay: db.Pool(t, "relay"), engine: engine}
	s.client = s.clientVia(t, engine.APIURL)
	s.queue = store.New(s.relay)
	return s
}

// clientVia is a client of the test's store that reaches the engine at url.
func (s *stack) clientVia(t testing.TB, url string) *fga.Client {
	t.Helper()
	client, err := fga.New(config.OpenFGA{APIURL: url, StoreID: s.engine.StoreID, ModelID: s.engine.ModelID, Timeout: 3 * time.Second}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// quick are settings with which a test need not wait long.
func quick() relay.Settings {
	return relay.Settings{
		Workers: 2, BatchRows: 100, TuplesPerRequest: 100, BytesPerRequest: 400_000,
		PollInterval: 200 * time.Millisecond, Lease: 15 * time.Second, CallTimeout: 3 * time.Second, Settle: 5 * time.Second,
		MaxAttempts: 3, RetryDelay: 50 * time.Millisecond,
	}
}

// engine is what a relay writes to.
type engine interface {
	Write(ctx context.Context, writes []fga.Tuple, deletes []fga.Key) error
}

// start runs a relay until the test's end or until stop is called, which waits
// for it. It polls only; TestNotificationsMakeItFast has the listener.
func (s *stack) start(t testing.TB, to engine, settings relay.Settings) (stop func()) {
	t.Helper()
	_, stop = s.startWith(t, to, nil, settings)
	return stop
}

type listener interface {
	Listen(ctx context.Context, queued func()) error
}

func (s *stack) startWith(t testing.TB, to engine, listen listener, settings relay.Settings) (*relay.Relay, func()) {
	t.Helper()
	log := zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))
	r, err := relay.New(s.queue, to, listen, settings, prometheus.NewRegistry(), log, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			t.Errorf("the relay ended with: %v", err)
		}
	}()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return r, stop
}

// payload is a queued row's content.
type payload struct {
	Writes  []fga.Tuple `json:"writes,omitempty"`
	Deletes []fga.Key   `json:"deletes,omitempty"`
}

// insert queues as the ledger does: the payload and nothing else.
const insert = "INSERT INTO outbox.fga_outbox (payload) VALUES ($1)"

func (s *stack) insert(t testing.TB, rows ...payload) {
	t.Helper()
	for _, row := range rows {
		if _, err := s.ledger.Exec(t.Context(), insert, row.json(t)); err != nil {
			t.Fatalf("queuing: %v", err)
		}
	}
}

func (p payload) json(t testing.TB) []byte {
	t.Helper()
	content, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// drained waits until no row waits.
func (s *stack) drained(t testing.TB, within time.Duration) {
	t.Helper()
	testkit.Eventually(t, within, func() (bool, string) {
		stats, err := s.queue.Stats(t.Context())
		if err != nil {
			return false, err.Error()
		}
		return stats.Waiting == 0, fmt.Sprintf("%d rows wait, %d are dead", stats.Waiting, stats.Dead)
	})
}

// tuples are what the engine holds. On a busy machine it may need several tries
// to say so.
func (s *stack) tuples(t *testing.T) map[fga.Key]fga.Tuple {
	t.Helper()
	var held map[fga.Key]fga.Tuple
	testkit.Eventually(t, time.Minute, func() (bool, string) {
		held = map[fga.Key]fga.Tuple{}
		err := s.client.Read(t.Context(), fga.Key{}, func(tuple fga.Tuple) error {
			held[tuple.Key()] = tuple
			return nil
		})
		return err == nil, fmt.Sprintf("reading the engine: %v", err)
	})
	return held
}

// holds fails the test unless the engine holds exactly these.
func (s *stack) holds(t *testing.T, want ...fga.Tuple) {
	t.Helper()
	held := s.tuples(t)
	for _, tuple := range want {
		if _, there := held[tuple.Key()]; !there {
			t.Errorf("the engine lacks %v", tuple.Key())
		}
		delete(held, tuple.Key())
	}
	if len(held) > 0 {
		t.Errorf("the engine has too much: %v", slices.Collect(maps.Keys(held)))
	}
}

// row is the state of a queued row, as the relay's role sees it.
type row struct {
	id        int64
	attempts  int
	delivered *time.Time
	dead      *time.Time
	reason    string
}

func (s *stack) rows(t *testing.T) []row {
	t.Helper()
	result, err := s.relay.Query(t.Context(), `
		SELECT id, attempts, processed_at, dead_at, coalesce(last_error, '') FROM outbox.fga_outbox ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	var rows []row
	for result.Next() {
		var r row
		if err := result.Scan(&r.id, &r.attempts, &r.delivered, &r.dead, &r.reason); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if result.Err() != nil {
		t.Fatal(result.Err())
	}
	return rows
}

// owner is a tuple that says who owns job n.
func owner(user string, n int) fga.Tuple {
	return fga.Tuple{User: "user:" + user, Relation: "owner", Object: job(n)}
}

func job(n int) string { return fmt.Sprintf("capture_job:00000000-0000-4000-8000-%012d", n) }

// capture is what an admission queues.
func capture(n int, organization, submitter string) payload {
	id := strings.TrimPrefix(job(n), "capture_job:")
	return payload{Writes: fga.CaptureTuples(id, id, organization, submitter)}
}

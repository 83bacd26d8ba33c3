package relay_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

// Draining rows of three tuples against writing the same number of tuples to the
// engine by the hundred, at the relay's own concurrency, and both again where
// one organization has many jobs already (OpenFGA's look for duplicates falls
// into a plan that walks all of them unless its database URL says
// plan_cache_mode=force_custom_plan). Run by `make bench`, for numbers need a
// quiet machine: MUNIMENT_BENCH=1. Stated: 10,000 rows, 50,000 jobs.
func TestBenchDrain(t *testing.T) {
	if os.Getenv("MUNIMENT_BENCH") != "1" {
		t.Skip("a measurement, run by 'make bench' (MUNIMENT_BENCH=1)")
	}
	const rows = 10_000
	for _, jobs := range []int{0, 50_000} {
		s := newStack(t)
		workers := 4
		if jobs > 0 {
			s.bare(t, workers, 1_000_000, jobs)
		}
		bare := s.bare(t, workers, 2_000_000, rows)
		s.queueMany(t, 3_000_000, rows)
		settings := quick()
		settings.Workers, settings.PollInterval = workers, 5*time.Second
		began := time.Now()
		stop := s.start(t, s.client, settings)
		s.drained(t, 10*time.Minute)
		drained := time.Since(began)
		stop()
		t.Logf("%d jobs there: bare %s (%.0f rows/s), drained %s (%.0f rows/s), %.2f times as long",
			jobs, bare.Round(time.Millisecond), rows/bare.Seconds(), drained.Round(time.Millisecond), rows/drained.Seconds(),
			drained.Seconds()/bare.Seconds())
	}
}

// bare writes the tuples of captures from..from+n in requests of a hundred.
func (s *stack) bare(t *testing.T, workers, from, n int) time.Duration {
	t.Helper()
	requests := make(chan []fga.Tuple)
	var writers sync.WaitGroup
	began := time.Now()
	for range workers {
		writers.Go(func() {
			for tuples := range requests {
				if err := s.client.Write(context.Background(), tuples, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var open []fga.Tuple
	for i := range n {
		for _, tuple := range capture(from+i, "acme", "alice").Writes {
			if open = append(open, tuple); len(open) == 100 {
				requests <- open
				open = nil
			}
		}
	}
	if len(open) > 0 {
		requests <- open
	}
	close(requests)
	writers.Wait()
	return time.Since(began)
}

// queueMany queues captures in one statement.
func (s *stack) queueMany(t *testing.T, from, n int) {
	t.Helper()
	payloads := make([]string, 0, n)
	for i := range n {
		payloads = append(payloads, string(capture(from+i, "acme", "alice").json(t)))
	}
	if _, err := s.ledger.Exec(t.Context(), `INSERT INTO outbox.fga_outbox (payload) SELECT p::jsonb FROM unnest($1::text[]) AS p`, payloads); err != nil {
		t.Fatalf("queuing: %v", err)
	}
}

// From commit to engine, on an idle relay that listens: the median is below 50
// ms on a quiet machine. Asserted loosely, for machines that are not.
func TestNotificationsMakeItFast(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	settings := quick()
	settings.PollInterval = 5 * time.Second
	landed := make(chan time.Time, 1)
	_, stop := s.startWith(t, signalling{s.client, landed}, store.NewListener(config.Database{URL: s.db.URL("relay"), Mode: "prepared"}, "", s.queue), settings)
	defer stop()
	s.insert(t, payload{Writes: []fga.Tuple{owner("alice", 0)}}) // found by the poll or by notification
	<-landed
	var took []time.Duration
	for n := range testkit.Soak(15, 100) {
		s.insert(t, payload{Writes: []fga.Tuple{owner("alice", n+1)}})
		committed := time.Now()
		took = append(took, (<-landed).Sub(committed))
	}
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("median from commit to engine: %s", median)
	if median > time.Second {
		t.Errorf("median from commit to engine: %s, although the relay listens", median)
	}
}

// signalling says when a request has landed.
type signalling struct {
	engine
	landed chan<- time.Time
}

func (s signalling) Write(ctx context.Context, writes []fga.Tuple, deletes []fga.Key) error {
	err := s.engine.Write(ctx, writes, deletes)
	if err == nil {
		s.landed <- time.Now()
	}
	return err
}

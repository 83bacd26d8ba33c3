package relay_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/outbox-relay/internal/relay"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

// BenchmarkDrain sets the relay's draining of 10,000 rows of three tuples beside
// writing as many tuples to the engine by the hundred, at the relay's own
// concurrency: drained/bare is the price of order and of a database that knows
// what has landed, and its goal is 1.2. The second one does both where one
// organization has 50,000 jobs already, which the engine's look for duplicates
// must not notice (see TestOneOrganizationMayGrow).
//
// The two take turns, bare, drained, drained, bare, so that what else the
// machine does weighs on both alike.
func BenchmarkDrain(b *testing.B) {
	for _, jobs := range []int{2_000, 50_000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) { benchmarkDrain(b, jobs) })
	}
}

func benchmarkDrain(b *testing.B, jobs int) {
	const rows, part = 10_000, 5_000
	s := newStack(b)
	settings := quick()
	settings.Workers, settings.BatchRows, settings.PollInterval = 4, 330, 5*time.Second
	next := 0
	from := func(n int) int { next += n; return next - n }
	s.jobs(b, from(jobs), jobs)
	var bare, drained time.Duration
	for b.Loop() {
		for range rows / part / 2 {
			bare += s.bare(b, settings.Workers, from(part), part)
			drained += s.drain(b, settings, from(part), part)
			drained += s.drain(b, settings, from(part), part)
			bare += s.bare(b, settings.Workers, from(part), part)
		}
	}
	total := float64(b.N * rows)
	b.ReportMetric(total/bare.Seconds(), "bare-rows/s")
	b.ReportMetric(total/drained.Seconds(), "drained-rows/s")
	b.ReportMetric(drained.Seconds()/bare.Seconds(), "drained/bare")
}

// drain queues captures from..from+n and measures how long a relay takes to
// deliver them, from its start. Nobody counts what waits meanwhile, which would
// cost the database more than the delivery does.
func (s *stack) drain(t testing.TB, settings relay.Settings, from, n int) time.Duration {
	t.Helper()
	s.queueMany(t, from, n)
	counting := &counting{engine: s.client, landed: make(chan struct{})}
	counting.left.Store(int64(n * len(capture(from, "acme", "alice").Writes)))
	began := time.Now()
	stop := s.start(t, counting, settings)
	<-counting.landed
	s.drained(t, time.Minute)
	took := time.Since(began)
	stop()
	return took
}

// counting closes landed when so many tuples have been written.
type counting struct {
	engine
	left   atomic.Int64
	landed chan struct{}
}

func (c *counting) Write(ctx context.Context, writes []fga.Tuple, deletes []fga.Key) error {
	err := c.engine.Write(ctx, writes, deletes)
	if err == nil && c.left.Add(-int64(len(writes))) == 0 {
		close(c.landed)
	}
	return err
}

// bare writes the tuples of captures from..from+n in requests of a hundred.
func (s *stack) bare(t testing.TB, workers, from, n int) time.Duration {
	t.Helper()
	var tuples []fga.Tuple
	for i := range n {
		tuples = append(tuples, capture(from+i, "acme", "alice").Writes...)
	}
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
	for request := range slices.Chunk(tuples, 100) {
		requests <- request
	}
	close(requests)
	writers.Wait()
	return time.Since(began)
}

// queueMany queues captures in one statement.
func (s *stack) queueMany(t testing.TB, from, n int) {
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

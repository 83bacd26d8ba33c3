package relay_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
)

// recorder passes requests on and remembers them.
type recorder struct {
	engine
	mu    sync.Mutex
	calls []call
}

type call struct {
	writes  []fga.Tuple
	deletes []fga.Key
	err     error
}

func (r *recorder) Write(ctx context.Context, writes []fga.Tuple, deletes []fga.Key) error {
	err := r.engine.Write(ctx, writes, deletes)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call{writes, deletes, err})
	return err
}

func (r *recorder) recorded() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]call(nil), r.calls...)
}

func TestQueuedTuplesArrive(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.insert(t, capture(1, "acme", "alice"), capture(2, "acme", ""))
	s.start(t, s.client, quick())
	s.drained(t, 10*time.Second)
	s.holds(t, append(capture(1, "acme", "alice").Writes, capture(2, "acme", "").Writes...)...)
	for _, r := range s.rows(t) {
		if r.delivered == nil || r.attempts != 0 {
			t.Errorf("row %d: delivered %v, attempts %d", r.id, r.delivered, r.attempts)
		}
	}
}

// A row of ten writes, nine of which are there already, and the same row twice.
func TestT21DuplicatesBesideNewOnes(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	var ten []fga.Tuple
	for n := range 10 {
		ten = append(ten, owner("alice", n))
	}
	if err := s.client.Write(t.Context(), ten[:9], nil); err != nil {
		t.Fatal(err)
	}
	gone := owner("bob", 0).Key() // never was there
	s.insert(t, payload{Writes: ten, Deletes: []fga.Key{gone}}, payload{Writes: ten})
	s.start(t, s.client, quick())
	s.drained(t, 10*time.Second)
	s.holds(t, ten...)
	for _, r := range s.rows(t) {
		if r.attempts != 0 {
			t.Errorf("row %d was refused %d times: %s", r.id, r.attempts, r.reason)
		}
	}
}

// Five relays and one new tuple in each of many rows that name different
// objects: first writes of one tuple that meet each other pass on retry. Here
// they are made to meet by writing past the outbox at the same moment.
func TestT22ConflictThatPasses(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	var want []fga.Tuple
	for n := range 60 {
		want = append(want, owner("alice", n))
		s.insert(t, payload{Writes: want[n:]})
	}
	for range 5 {
		s.start(t, s.client, quick())
	}
	var meet sync.WaitGroup
	for _, tuple := range want {
		meet.Go(func() { _ = s.client.Write(context.Background(), []fga.Tuple{tuple}, nil) })
	}
	meet.Wait()
	s.drained(t, 20*time.Second)
	s.holds(t, want...)
	for _, r := range s.rows(t) {
		if r.dead != nil {
			t.Errorf("row %d was set aside: %s", r.id, r.reason)
		}
	}
}

// conflicting answers the first requests with a conflict and hands on the rest.
type conflicting struct {
	engine
	left, asked atomic.Int64
}

func (c *conflicting) Write(ctx context.Context, writes []fga.Tuple, deletes []fga.Key) error {
	c.asked.Add(1)
	if c.left.Add(-1) >= 0 {
		return &fga.Error{Kind: fga.ErrConflict, Message: "another write was there"}
	}
	return c.engine.Write(ctx, writes, deletes)
}

// A conflict that passes within a moment costs no attempt, and one that stays
// ends after four tries in each of three attempts.
func TestT22ConflictsAreTriedSoonAndNotForEver(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for _, tc := range []struct {
		conflicts, asked int64
		attempts         int
		dead             bool
	}{{3, 4, 0, false}, {1000, 12, 3, true}} {
		s.insert(t, payload{Writes: []fga.Tuple{owner("alice", int(tc.asked))}})
		engine := &conflicting{engine: s.client}
		engine.left.Store(tc.conflicts)
		stop := s.start(t, engine, quick())
		s.drained(t, 20*time.Second)
		stop()
		rows := s.rows(t)
		last := rows[len(rows)-1]
		if last.attempts != tc.attempts || (last.dead != nil) != tc.dead || engine.asked.Load() != tc.asked {
			t.Errorf("after %d conflicts: asked %d times, %+v", tc.conflicts, engine.asked.Load(), last)
		}
	}
}

func share(n int, granted time.Time) fga.Tuple {
	return fga.ShareTuple(fmt.Sprintf("00000000-0000-4000-8000-%012d", n), "dave", granted, 168*time.Hour)
}

// Renewing a grant is a delete and a write of one tuple: two requests, in order.
// Writing the other grant over the first is a conflict that never passes.
func TestT22RenewedGrant(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	first := time.Date(2026, 11, 30, 17, 0, 0, 0, time.UTC)
	old, renewed := share(1, first), share(1, first.Add(24*time.Hour))
	s.insert(t,
		payload{Writes: []fga.Tuple{old}},
		payload{Writes: []fga.Tuple{renewed}, Deletes: []fga.Key{old.Key()}},
	)
	seen := &recorder{engine: s.client}
	s.start(t, seen, quick())
	s.drained(t, 10*time.Second)
	got := s.tuples(t)[old.Key()]
	if until, _ := got.Until(); !until.Equal(first.Add(8 * 24 * time.Hour)) {
		t.Errorf("the grant ends at %s", until)
	}
	calls := seen.recorded()
	if len(calls) != 3 || len(calls[1].deletes) != 1 || len(calls[1].writes) != 0 || len(calls[2].writes) != 1 {
		t.Errorf("the requests were %+v", calls)
	}

	// The same instant in another spelling is another condition to the engine.
	respelled := share(1, first.Add(24*time.Hour))
	respelled.Condition.Context["grant_time"] = "2026-12-01T17:00:00+00:00"
	other := owner("alice", 7)
	s.insert(t, payload{Writes: []fga.Tuple{respelled}}, payload{Writes: []fga.Tuple{other}})
	s.drained(t, 20*time.Second)
	rows := s.rows(t)
	if r := rows[2]; r.dead == nil || r.attempts != 3 || r.reason == "" {
		t.Errorf("the conflicting row: %+v", r)
	}
	if _, there := s.tuples(t)[other.Key()]; !there {
		t.Error("the row beside the conflict did not land")
	}
}

func TestT24RequestsStayUnderTheLimit(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	var want []fga.Tuple
	for n := range 250 {
		p := capture(n, "acme", "alice")
		want = append(want, p.Writes...)
		s.insert(t, p)
	}
	seen := &recorder{engine: s.client}
	settings := quick()
	settings.Workers = 1
	s.start(t, seen, settings)
	s.drained(t, 20*time.Second)
	s.holds(t, want...)
	calls := seen.recorded()
	for _, c := range calls {
		if n := len(c.writes) + len(c.deletes); n > 100 {
			t.Errorf("a request of %d tuples", n)
		}
	}
	// 250 rows claimed by the hundred, 33 to a request: 4 + 4 + 2.
	if len(calls) > 10 {
		t.Errorf("%d requests for 250 rows of three tuples", len(calls))
	}
}

// A row of 150 writes and 20 deletes is delivered whole, and one whose relay
// died after the first request goes on where it stood.
func TestLargeRowIsDeliveredWholeAndResumes(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	var row payload
	for n := range 150 {
		row.Writes = append(row.Writes, owner("alice", n))
	}
	var gone []fga.Tuple
	for n := range 20 {
		gone = append(gone, owner("bob", n))
		row.Deletes = append(row.Deletes, gone[n].Key())
	}
	if err := s.client.Write(t.Context(), gone, nil); err != nil {
		t.Fatal(err)
	}
	s.insert(t, row)

	away := &failing{engine: s.client, allow: 1}
	stop := s.start(t, away, quick())
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		var done int
		err := s.relay.QueryRow(t.Context(), "SELECT tuples_done FROM outbox.fga_outbox").Scan(&done)
		return done == 100, fmt.Sprintf("%d tuples done, %v", done, err)
	})
	stop()
	if held := s.tuples(t); len(held) != 80 {
		t.Fatalf("after one request the engine holds %d tuples, want 80", len(held))
	}

	seen := &recorder{engine: s.client}
	s.start(t, seen, quick())
	s.drained(t, 20*time.Second)
	s.holds(t, row.Writes...)
	if calls := seen.recorded(); len(calls) != 1 || len(calls[0].writes) != 70 {
		t.Errorf("resumed with %d requests", len(calls))
	}
}

// failing lets a number of requests through and then says that the engine is
// away, without having sent anything.
type failing struct {
	engine
	mu    sync.Mutex
	allow int
}

func (f *failing) Write(ctx context.Context, writes []fga.Tuple, deletes []fga.Key) error {
	f.mu.Lock()
	ok := f.allow > 0
	f.allow--
	f.mu.Unlock()
	if !ok {
		return &fga.Error{Kind: fga.ErrUnavailable, Message: "away"}
	}
	return f.engine.Write(ctx, writes, deletes)
}

// Transaction A queues and waits, B queues for another object and commits, the
// relay runs, A commits.
func TestT26LateCommitIsFound(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	late, err := s.ledger.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Exec(t.Context(), insert, payload{Writes: []fga.Tuple{owner("alice", 1)}}.json(t)); err != nil {
		t.Fatal(err)
	}
	s.insert(t, payload{Writes: []fga.Tuple{owner("bob", 2)}})
	s.start(t, s.client, quick())
	s.drained(t, 10*time.Second)
	s.holds(t, owner("bob", 2))
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		held := s.tuples(t)
		return len(held) == 2, fmt.Sprint(held)
	})
}

// A row that the engine refuses, 200 good ones behind it, and one good row for
// the bad one's object.
func TestT27BadRowAtTheHead(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	bad := fga.Tuple{User: "user:eve", Relation: "nope", Object: job(0)}
	s.insert(t, payload{Writes: []fga.Tuple{bad}})
	var want []fga.Tuple
	for n := 1; n <= 200; n++ {
		want = append(want, owner("alice", n))
		s.insert(t, payload{Writes: want[n-1:]})
	}
	behind := owner("alice", 0)
	s.insert(t, payload{Writes: []fga.Tuple{behind}})
	s.start(t, s.client, quick())

	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		stats, err := s.queue.Stats(t.Context())
		return err == nil && stats.Dead == 1 && stats.Waiting == 1, fmt.Sprintf("%+v %v", stats, err)
	})
	s.holds(t, want...)
	dead, err := s.queue.ListDead(t.Context(), 0, 10)
	if err != nil || len(dead) != 1 || dead[0].Attempts != 3 || dead[0].Reason == "" || dead[0].Keys[0] != job(0) {
		t.Fatalf("dead rows: %+v, %v", dead, err)
	}
	t.Logf("the reason kept: %s", dead[0].Reason)

	// It is tried again by hand only, and is then refused again.
	if n, err := s.queue.Retry(t.Context(), []int64{dead[0].ID, dead[0].ID + 1}); n != 1 || err != nil {
		t.Fatalf("retried %d: %v", n, err)
	}
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		stats, err := s.queue.Stats(t.Context())
		return err == nil && stats.Dead == 1, fmt.Sprintf("%+v %v", stats, err)
	})
	s.holds(t, want...)
	// Another whole round of attempts, not the last one of the first.
	if again, err := s.queue.ListDead(t.Context(), 0, 10); err != nil || len(again) != 1 || again[0].Attempts != 3 {
		t.Fatalf("dead rows after a retry by hand: %+v, %v", again, err)
	}

	// Where a person has repaired the model, the row and the one behind it land,
	// in this order. Here the payload is repaired in its place.
	owning := s.db.Pool(t, "superuser")
	if _, err := owning.Exec(t.Context(), `UPDATE outbox.fga_outbox SET payload = $1 WHERE id = $2`,
		payload{Writes: []fga.Tuple{owner("eve", 0)}}.json(t), dead[0].ID); err != nil {
		t.Fatal(err)
	}
	if n, err := s.queue.RetryAll(t.Context()); n != 1 || err != nil {
		t.Fatalf("retried %d: %v", n, err)
	}
	s.drained(t, 10*time.Second)
	s.holds(t, append(want, behind, owner("eve", 0))...)
}

// Bisection spends the bad rows' attempts and nobody else's, wherever in the
// request they stand.
func TestT27BisectionSparesTheGood(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	var want []fga.Tuple
	for n := range 90 {
		tuple := owner("alice", n)
		if n == 40 || n == 41 || n == 89 {
			tuple.Relation = "nope"
		} else {
			want = append(want, tuple)
		}
		s.insert(t, payload{Writes: []fga.Tuple{tuple}})
	}
	s.start(t, s.client, quick())
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		stats, err := s.queue.Stats(t.Context())
		return err == nil && stats.Dead == 3 && stats.Waiting == 0, fmt.Sprintf("%+v %v", stats, err)
	})
	s.holds(t, want...)
	var blamed int
	if err := s.relay.QueryRow(t.Context(), "SELECT count(*) FROM outbox.fga_outbox WHERE attempts > 0 OR last_error IS NOT NULL").Scan(&blamed); err != nil || blamed != 3 {
		t.Errorf("%d rows spent attempts, %v; three are bad", blamed, err)
	}
}

// Three rows in a row for one object (write, delete, write), and two rows with
// the very same write.
func TestT49TheSameTupleTwice(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	a, b := owner("alice", 1), owner("alice", 2)
	s.insert(t,
		payload{Writes: []fga.Tuple{a}}, payload{Deletes: []fga.Key{a.Key()}}, payload{Writes: []fga.Tuple{a}},
		payload{Writes: []fga.Tuple{b}}, payload{Writes: []fga.Tuple{b}},
		payload{Writes: []fga.Tuple{owner("carol", 3), owner("carol", 3)}, Deletes: []fga.Key{owner("carol", 3).Key()}},
	)
	seen := &recorder{engine: s.client}
	s.start(t, seen, quick())
	s.drained(t, 10*time.Second)
	s.holds(t, a, b, owner("carol", 3))
	for _, c := range seen.recorded() {
		named := map[fga.Key]bool{}
		for _, w := range c.writes {
			if named[w.Key()] {
				t.Errorf("%v twice in one request", w.Key())
			}
			named[w.Key()] = true
		}
		for _, d := range c.deletes {
			if named[d] {
				t.Errorf("%v written and deleted, or twice, in one request", d)
			}
			named[d] = true
		}
		if c.err != nil {
			t.Errorf("the engine refused: %v", c.err)
		}
	}
}

// A conditional tuple's context reaches the engine as it was queued.
func TestT52PayloadReachesTheEngineAsQueued(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	tuple := share(1, time.Date(2026, 11, 30, 17, 0, 0, 123456000, time.UTC))
	s.insert(t, payload{Writes: []fga.Tuple{tuple}})
	s.start(t, s.client, quick())
	s.drained(t, 10*time.Second)
	got, there := s.tuples(t)[tuple.Key()]
	if !there || got.Condition == nil || got.Condition.Name != "non_expired_grant" ||
		got.Condition.Context["grant_time"] != "2026-11-30T17:00:00.123456Z" || got.Condition.Context["grant_duration"] != "168h0m0s" {
		t.Errorf("the engine holds %+v, condition %+v", got, got.Condition)
	}

	// A key that we do not know sets the row aside: delivering the rest of the
	// tuple would grant without end.
	if _, err := s.ledger.Exec(t.Context(), insert,
		`{"writes":[{"user":"user:dave","relation":"viewer","object":"archive:9","conditions":{"name":"non_expired_grant"}}]}`); err != nil {
		t.Fatal(err)
	}
	s.drained(t, 10*time.Second)
	if rows := s.rows(t); rows[1].dead == nil {
		t.Errorf("the row with an unknown key: %+v", rows[1])
	}
}

var _ engine = (*fga.Client)(nil)

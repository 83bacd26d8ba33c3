package relay_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
)

// The engine is stopped: admissions go on, nothing is lost and no attempt is
// spent; it comes back and everything arrives by itself.
func TestEngineAwayHoldsEverything(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := testkit.NewProxy(t, s.engine.APIURL)
	p.Stop()
	s.start(t, s.clientVia(t, p.URL), quick())
	var want []fga.Tuple
	for n := range 50 {
		change := capture(n, "acme", "alice")
		want = append(want, change.Writes...)
		s.insert(t, change)
	}
	time.Sleep(time.Second) // long enough for several tries to fail
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	s.drained(t, 15*time.Second)
	s.holds(t, want...)
	for _, r := range s.rows(t) {
		if r.attempts != 0 || r.dead != nil {
			t.Errorf("row %d: %d attempts, dead %v", r.id, r.attempts, r.dead)
		}
	}
}

// A request that the relay has given up on lands a second later all the same: a
// proxy on the way had taken it and delivers it whoever still waits. (Toxiproxy
// drops what it holds when the client leaves; this one does not.) The delete
// that was queued behind the write must not be overtaken by it, so it waits
// until the lost request has settled.
func TestLostRequestDoesNotOvertakeTheNext(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	var landed sync.WaitGroup
	var first atomic.Bool
	landed.Add(1)
	holding := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		forward := func() (*http.Response, error) {
			return http.Post(s.engine.APIURL+r.URL.Path, "application/json", bytes.NewReader(body))
		}
		if first.CompareAndSwap(false, true) {
			go func() {
				defer landed.Done()
				time.Sleep(time.Second)
				if reply, err := forward(); err != nil || reply.StatusCode != http.StatusOK {
					t.Errorf("the lost request did not land: %v", err)
				}
			}()
			<-r.Context().Done()
			return
		}
		reply, err := forward()
		if err != nil {
			t.Errorf("forwarding: %v", err)
			return
		}
		defer reply.Body.Close()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(reply.StatusCode)
		_, _ = io.Copy(w, reply.Body)
	}))
	t.Cleanup(holding.Close)

	tuple := owner("alice", 1)
	s.insert(t, payload{Writes: []fga.Tuple{tuple}}, payload{Deletes: []fga.Key{tuple.Key()}})
	settings := quick()
	settings.CallTimeout, settings.Settle = 300*time.Millisecond, 2*time.Second
	s.start(t, s.clientVia(t, holding.URL), settings)
	landed.Wait()
	s.drained(t, 20*time.Second)
	s.holds(t)
}

// The engine refuses nothing and closes every connection while answering: rows
// are delivered all the same once it stops, none is spent.
func TestBrokenConnectionsSpendNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := testkit.NewProxy(t, s.engine.APIURL)
	settings := quick()
	settings.Settle = 200 * time.Millisecond
	p.Toxic("reset_peer", "downstream", `{"timeout":5}`)
	s.start(t, s.clientVia(t, p.URL), settings)
	s.insert(t, payload{Writes: []fga.Tuple{owner("alice", 1)}}, payload{Writes: []fga.Tuple{owner("alice", 2)}})
	time.Sleep(time.Second)
	p.Heal("reset_peer")
	s.drained(t, 15*time.Second)
	s.holds(t, owner("alice", 1), owner("alice", 2))
	for _, r := range s.rows(t) {
		if r.attempts != 0 {
			t.Errorf("row %d spent %d attempts", r.id, r.attempts)
		}
	}
}

// An engine that answers 400 to everything in its own form is believed: rows
// are set aside, none counts as delivered.
func TestT23NoCleanReplyNoDelivery(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"code":"validation_error","message":"no"}`)
	}))
	t.Cleanup(refusing.Close)
	s.insert(t, capture(1, "acme", "alice"), capture(2, "acme", "alice"))
	s.start(t, s.clientVia(t, refusing.URL), quick())
	s.drained(t, 15*time.Second)
	for _, r := range s.rows(t) {
		if r.delivered != nil || r.dead == nil {
			t.Errorf("row %d: delivered %v, dead %v", r.id, r.delivered, r.dead)
		}
	}
}

// A model that is not there stops everything loudly and spends nothing; the
// pinned one goes on although a newer one lacks the type.
func TestT20WrongModelSpendsNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.engine.WriteModel(t, []byte(`{"schema_version":"1.1","type_definitions":[{"type":"user"}]}`))
	s.insert(t, capture(1, "acme", "alice"))
	stop := s.start(t, s.client, quick())
	s.drained(t, 10*time.Second)
	s.holds(t, capture(1, "acme", "alice").Writes...)
	stop()

	for name, change := range map[string]func(*config.OpenFGA){
		"model": func(c *config.OpenFGA) { c.ModelID = "01ARZ3NDEKTSV4RRFFQ69G5FAV" },
		"store": func(c *config.OpenFGA) { c.StoreID = "01ARZ3NDEKTSV4RRFFQ69G5FAV" },
	} {
		settings := config.OpenFGA{APIURL: s.engine.APIURL, StoreID: s.engine.StoreID, ModelID: s.engine.ModelID}
		change(&settings)
		wrong, err := fga.New(settings, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if err := wrong.Ready(t.Context()); err == nil {
			t.Errorf("wrong %s: the health check says ready", name)
		}
		s.insert(t, capture(2, "acme", "alice"))
		seen := &recorder{engine: wrong}
		stop := s.start(t, seen, quick())
		testkit.Eventually(t, 10*time.Second, func() (bool, string) {
			return len(seen.recorded()) >= 2, fmt.Sprintf("wrong %s: %d requests", name, len(seen.recorded()))
		})
		stop()
		for _, r := range s.rows(t)[1:] {
			if r.delivered != nil || r.attempts != 0 || r.dead != nil {
				t.Errorf("wrong %s: row %+v", name, r)
			}
		}
	}
	s.start(t, s.client, quick())
	s.drained(t, 10*time.Second)
	s.holds(t, append(capture(1, "acme", "alice").Writes, capture(2, "acme", "alice").Writes...)...)
}

// An overloaded engine says when to come again. It is left alone for that long,
// and a shutdown does not wait for it.
func TestRetryAfterIsHonouredAndInterruptible(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	var asked atomic.Int64
	overloaded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(overloaded.Close)
	for n := range 20 {
		s.insert(t, capture(n, "acme", "alice"))
	}
	settings := quick()
	settings.Workers, settings.BatchRows = 4, 2
	stop := s.start(t, s.clientVia(t, overloaded.URL), settings)
	testkit.Eventually(t, 10*time.Second, func() (bool, string) { return asked.Load() > 0, "not asked yet" })
	// Each worker may have one request under way. Without the engine's word the
	// gate would try again after some tenths of a second, and then some more.
	time.Sleep(time.Second)
	first := asked.Load()
	time.Sleep(3 * time.Second)
	if n := asked.Load(); first > 4 || n > first {
		t.Errorf("asked %d times, and %d within four seconds of a Retry-After of twenty", first, n)
	}
	began := time.Now()
	stop()
	if took := time.Since(began); took > time.Second {
		t.Errorf("stopping took %s", took)
	}
}

// Two relays and an engine whose answers take two seconds: each row is sent
// once, although the requests outlive the claiming statement by far.
func TestT28EachRowIsSentOnce(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := testkit.NewProxy(t, s.engine.APIURL)
	p.Toxic("latency", "downstream", `{"latency":2000}`)
	for n := range 100 {
		s.insert(t, payload{Writes: []fga.Tuple{owner("alice", n)}})
	}
	settings := quick()
	settings.BatchRows, settings.TuplesPerRequest = 50, 10
	seen := &recorder{engine: s.clientVia(t, p.URL)}
	stop := s.start(t, seen, settings)
	s.start(t, seen, settings)
	time.Sleep(5 * time.Second)
	stop() // one ends half-way; what it had not sent goes to the other
	s.drained(t, 60*time.Second)
	seen.eachOnce(t, 100)
}

// One claim takes far longer than its lease, which is renewed as it goes: the
// relay beside it, which looks for rows all the time, takes none of them.
func TestT28TheLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := testkit.NewProxy(t, s.engine.APIURL)
	p.Toxic("latency", "downstream", `{"latency":500}`)
	for n := range 20 {
		s.insert(t, payload{Writes: []fga.Tuple{owner("alice", n)}})
	}
	settings := quick()
	settings.Workers, settings.BatchRows, settings.TuplesPerRequest = 1, 20, 1
	settings.Lease, settings.CallTimeout, settings.Settle = 4*time.Second, 2*time.Second, 500*time.Millisecond
	seen := &recorder{engine: s.clientVia(t, p.URL)}
	s.start(t, seen, settings)
	s.start(t, seen, settings)
	s.drained(t, 60*time.Second)
	seen.eachOnce(t, 20)
}

// eachOnce says whether so many tuples were written, each once.
func (r *recorder) eachOnce(t *testing.T, want int) {
	t.Helper()
	sent := map[fga.Key]int{}
	for _, c := range r.recorded() {
		for _, w := range c.writes {
			sent[w.Key()]++
		}
	}
	if len(sent) != want {
		t.Errorf("%d rows were sent", len(sent))
	}
	for key, n := range sent {
		if n != 1 {
			t.Errorf("%v was sent %d times", key, n)
		}
	}
}

// An engine that is away is asked as often as requests were under way when it
// went, and then by one request at a time: the other packs of the batch are not
// sent, and of the next one the first goes alone.
func TestAnOutageIsAskedByOneAtATime(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	arrived, answer := make(chan struct{}, 100), make(chan struct{})
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(away.Close)
	for n := range 12 {
		s.insert(t, capture(n, "acme", "alice"))
	}
	settings := quick()
	settings.Workers, settings.TuplesPerRequest = 4, 3 // a row is a pack
	stop := s.start(t, s.clientVia(t, away.URL), settings)
	next := func(n int) {
		t.Helper()
		for range n {
			select {
			case <-arrived:
			case <-time.After(10 * time.Second):
				t.Fatal("the engine is not asked")
			}
		}
		select {
		case <-arrived:
			t.Fatalf("one more than %d at once asks an engine that is away", n)
		case <-time.After(300 * time.Millisecond):
		}
		for range n {
			answer <- struct{}{}
		}
	}
	next(settings.Workers)
	for range 3 {
		next(1)
	}
	close(answer)
	stop()
	for _, r := range s.rows(t) {
		if r.delivered != nil || r.dead != nil || r.attempts != 0 {
			t.Errorf("row %d: delivered %v, dead %v, %d attempts", r.id, r.delivered, r.dead, r.attempts)
		}
	}
}

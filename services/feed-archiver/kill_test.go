package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// whole wants every stored read to be whole: what its poll says is what is
// there, and no product is there that no poll brought.
func (a *archivers) whole(t *testing.T) {
	t.Helper()
	rows := store.New(a.db.Pool(t, "feed"))
	polls, err := a.superuser.Query(t.Context(), "SELECT id, items_seen FROM feed.as_issued_polls")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int64]int{}
	for polls.Next() {
		var id int64
		var n int
		if err := polls.Scan(&id, &n); err != nil {
			t.Fatal(err)
		}
		seen[id] = n
	}
	if err := polls.Err(); err != nil {
		t.Fatal(err)
	}
	for id, n := range seen {
		held, err := rows.HeldBy(t.Context(), id, false)
		if err != nil || len(held) != n || n != 40 {
			t.Errorf("poll %d says that it held %d items, and %d are there (%v)", id, n, len(held), err)
		}
	}
	var claimed int
	if err := a.superuser.QueryRow(t.Context(), "SELECT coalesce(sum(items_new), 0) FROM feed.as_issued_polls").Scan(&claimed); err != nil {
		t.Fatal(err)
	}
	if n := a.count(t, "as_issued_products"); n != claimed {
		t.Errorf("%d products, and the polls brought %d", n, claimed)
	}
}

// noFailure wants no failed read: a reader that was killed is no fault of the
// publisher's.
func (a *archivers) noFailure(t *testing.T) {
	t.Helper()
	var n int
	var reasons string
	err := a.superuser.QueryRow(t.Context(), "SELECT count(*), coalesce(string_agg(DISTINCT source || ': ' || reason, '; '), '') FROM feed.as_issued_failed_reads").Scan(&n, &reasons)
	if err != nil || n != 0 {
		t.Errorf("%d failed reads, want none: %s %v", n, reasons, err)
	}
}

// A reader that is killed in the middle of an answer leaves nothing, no failed
// read either, and the next replica reads once its claim has ended.
func TestKilledMidRead(t *testing.T) {
	t.Parallel()
	a := newArchivers(t)
	never := make(chan struct{})
	a.publisher.hold.Store(&never)
	first := a.start(t, "first", "SOURCES=nws_alerts")
	select {
	case <-a.publisher.held:
	case <-time.After(30 * time.Second):
		t.Fatalf("nobody read\n%s", first.output.String())
	}
	second := a.start(t, "second", "SOURCES=nws_alerts", "NWS_ALERTS_EVERY=1h")
	a.eventually(t, 1, "source_schedule WHERE claimed_until > now()", first)
	first.kill(t)
	a.publisher.hold.Store(nil)
	a.eventually(t, 1, "as_issued_polls", second)
	a.whole(t)
	a.noFailure(t)
	if n := a.count(t, "as_issued_polls WHERE items_seen = 40 AND items_new = 40"); n != 1 {
		t.Errorf("%d first reads, want 1", n)
	}
}

// A reader that is killed while it writes leaves all of the read or nothing.
func TestKilledMidWrite(t *testing.T) {
	t.Parallel()
	a := newArchivers(t)
	// Whoever holds this lock makes the write wait within its transaction.
	tx, err := a.superuser.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended('as_issued nws_alerts', 0))"); err != nil {
		t.Fatal(err)
	}
	first := a.start(t, "first", "SOURCES=nws_alerts")
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		var waiting int
		err := a.superuser.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'").Scan(&waiting)
		return err == nil && waiting == 1, first.output.String()
	})
	first.kill(t)
	if n := a.count(t, "as_issued_polls") + a.count(t, "as_issued_products"); n != 0 {
		t.Errorf("%d rows of a read that is not finished", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := a.start(t, "second", "SOURCES=nws_alerts")
	a.eventually(t, 2, "as_issued_polls", second)
	second.kill(t)
	a.whole(t)
}

// kill -9 at random moments of reading and writing, again and again: what is
// stored is whole, and reading goes on.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	a := newArchivers(t)
	for range testkit.Soak(5, 200) {
		before := a.count(t, "as_issued_polls")
		r := a.start(t, "mortal")
		a.eventually(t, before+1+rand.IntN(10), "as_issued_polls", r)
		time.Sleep(rand.N(20 * time.Millisecond)) // the moment is the point
		r.kill(t)
	}
	a.whole(t)
	a.noFailure(t)
}

// Two replicas of the real program share the sources: each source is read by
// one at a time, and both take part.
func TestReplicasShareTheSources(t *testing.T) {
	t.Parallel()
	a := newArchivers(t)
	first, second := a.start(t, "first"), a.start(t, "second")
	testkit.Eventually(t, 60*time.Second, func() (bool, string) {
		a.publisher.mu.Lock()
		defer a.publisher.mu.Unlock()
		least := len(a.publisher.readers) == 2 && len(a.publisher.crowded) == 3
		for _, n := range a.publisher.readers {
			least = least && n >= 10
		}
		return least, first.output.String() + second.output.String()
	})
	a.publisher.mu.Lock()
	for source, n := range a.publisher.crowded {
		if n != 1 {
			t.Errorf("%s was read by %d at once", source, n)
		}
	}
	a.publisher.mu.Unlock()
	first.kill(t)
	second.kill(t)
	a.whole(t)
}

package poll_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/feeds"
	"github.com/muniment/muniment/services/feed-archiver/internal/fetch"
	"github.com/muniment/muniment/services/feed-archiver/internal/poll"
	"github.com/muniment/muniment/services/feed-archiver/internal/rights"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// publisher serves alerts; what it answers can be changed between reads.
type publisher struct {
	*httptest.Server
	items   atomic.Int64
	edition atomic.Int64
	handler atomic.Pointer[http.HandlerFunc]
	reads   atomic.Int64
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	p := &publisher{}
	p.items.Store(480)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.reads.Add(1)
		if h := p.handler.Load(); h != nil {
			(*h)(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/geo+json")
		fmt.Fprint(w, p.body())
	}))
	t.Cleanup(p.Close)
	return p
}

// body has three alerts that change with the edition.
func (p *publisher) body() string {
	features := make([]string, p.items.Load())
	for i := range features {
		revision := int64(0)
		if i < 3 {
			revision = p.edition.Load()
		}
		id := fmt.Sprintf("urn:oid:2.49.0.1.840.0.%d.%d", i, revision)
		features[i] = fmt.Sprintf(`{"id":"https://api.weather.gov/alerts/%s","type":"Feature","geometry":null,"properties":{"id":"%s","sent":"2026-11-30T12:00:00-07:00"}}`, id, id)
	}
	return `{"type":"FeatureCollection","features":[` + strings.Join(features, ",") + `],"updated":"` + time.Now().String() + `"}`
}

// bundle is a database with what is needed to make any number of replicas on it.
type bundle struct {
	feed, superuser *pgxpool.Pool
	publisher       *publisher
}

func setup(t *testing.T) bundle {
	t.Helper()
	db := testkit.Postgres(t)
	return bundle{feed: db.Pool(t, "feed"), superuser: db.Pool(t, "superuser"), publisher: newPublisher(t)}
}

// replica is a poller of nws_alerts as an archiver of its own would have it.
func (b bundle) replica(t *testing.T, change func(*feeds.Settings, *poll.Settings)) (*poll.Poller, *prometheus.Registry) {
	t.Helper()
	feedSettings := &feeds.Settings{ReadTimeout: 20 * time.Second}
	feedSettings.NWSAlerts.URL = b.publisher.URL + "/alerts/active"
	feedSettings.NWSAlerts.Queries = feeds.Queries{{Name: "active"}}
	feedSettings.NWSAlerts.Every = time.Hour
	settings := poll.Settings{Sources: []string{"nws_alerts"}, ClaimLease: time.Second, LookEvery: 20 * time.Millisecond}
	if change != nil {
		change(feedSettings, &settings)
	}
	client, err := fetch.New(fetch.Settings{Contact: "test@example.org", RequestTimeout: 10 * time.Second, MaxWait: time.Second}, "test", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	register, err := rights.CheckedIn()
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	rows := store.New(b.feed)
	writer := archive.New(rows, register, archive.NewMetrics(registry), zap.NewNop(), archive.InTests())
	return poll.New(rows, writer, feeds.NewReader(client, feedSettings, time.Now), feedSettings, settings, registry, zap.NewNop(), time.Now), registry
}

func (b bundle) count(t *testing.T, query string) int {
	t.Helper()
	var n int
	if err := b.superuser.QueryRow(t.Context(), "SELECT count(*) FROM feed."+query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func run(t *testing.T, p *poll.Poller) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("running the poller: %v", err)
		}
	}
	return stop
}

// The main job's step: 480 items, then 480 of which three changed.
func TestReadTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.replica(t, nil)
	for round, want := range []int64{480, 3, 0} {
		outcomes, err := p.ReadNow(t.Context(), "nws_alerts")
		if err != nil || len(outcomes) != 1 || outcomes[0].Failure != "" || *outcomes[0].Seen != 480 || outcomes[0].New != want {
			t.Fatalf("read %d: %+v, %v; want 480 seen and %d new", round, outcomes, err, want)
		}
		if round == 0 {
			b.publisher.edition.Add(1)
		}
	}
	if n := b.count(t, "as_issued_products"); n != 483 {
		t.Errorf("%d products, want 483", n)
	}
	if n := b.count(t, "as_issued_polls WHERE request = 'active' AND http_status = 200"); n != 3 {
		t.Errorf("%d polls, want 3", n)
	}
	if n := b.count(t, "as_issued_products WHERE issued_at = '2026-11-30T19:00:00Z'"); n != 483 {
		t.Errorf("%d products with the issue time that they state, want 483", n)
	}
}

// Two replicas share a source: one reads at a time, each at its own cadence.
func TestReplicasShareASource(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var inside, most atomic.Int64
	slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := inside.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(30 * time.Millisecond) // a publisher takes its time
		inside.Add(-1)
		fmt.Fprint(w, b.publisher.body())
	})
	b.publisher.items.Store(5)
	b.publisher.handler.Store(&slow)
	often := func(f *feeds.Settings, _ *poll.Settings) { f.NWSAlerts.Every = 50 * time.Millisecond }
	for range 3 {
		p, _ := b.replica(t, often)
		defer run(t, p)()
	}
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		n := b.count(t, "as_issued_polls")
		return n >= 10, fmt.Sprintf("%d polls", n)
	})
	if most.Load() != 1 {
		t.Errorf("%d readers at once, want 1", most.Load())
	}
	if n := b.count(t, "archiver_minutes"); n == 0 {
		t.Error("no archiver noted that it was alive")
	}
}

// A reader that was killed holds its claim no longer than the lease.
func TestAKilledReadersClaimFreesItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publisher.items.Store(1)
	if _, err := b.superuser.Exec(t.Context(), `INSERT INTO feed.source_schedule (source, next_read_at, claimed_by, claimed_until)
		VALUES ('nws_alerts', now() - interval '1 minute', gen_random_uuid(), now() + interval '500 milliseconds')`); err != nil {
		t.Fatal(err)
	}
	p, _ := b.replica(t, nil)
	if _, err := p.ReadNow(t.Context(), "nws_alerts"); !errors.Is(err, poll.ErrReading) {
		t.Errorf("while it is claimed: %v", err)
	}
	stop := run(t, p)
	defer stop()
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		n := b.count(t, "as_issued_polls")
		return n == 1, fmt.Sprintf("%d polls", n)
	})
}

// A reader that lost its claim gives up, and does not touch its successor's.
func TestALostClaimEndsTheRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, registry := b.replica(t, nil)
	block := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := b.superuser.Exec(r.Context(), `UPDATE feed.source_schedule SET claimed_by = gen_random_uuid(), claimed_until = now() + interval '1 hour'`); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	})
	b.publisher.handler.Store(&block)
	if _, err := p.ReadNow(t.Context(), "nws_alerts"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := b.count(t, "source_schedule WHERE claimed_until > now() + interval '50 minutes'"); n != 1 {
		t.Error("the successor's claim was touched")
	}
	if n := b.count(t, "as_issued_failed_reads"); n != 0 {
		t.Errorf("%d failed reads of a read that was given up, want none", n)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if name := f.GetName(); name == "muniment_feed_failed_reads_total" || name == "muniment_feed_archive_write_failures_total" {
			t.Errorf("a read that was given up is counted: %s", f)
		}
	}
}

func TestT38RetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	b := setup(t)
	busy := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7200")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	b.publisher.handler.Store(&busy)
	p, _ := b.replica(t, nil)
	outcomes, err := p.ReadNow(t.Context(), "nws_alerts")
	if err != nil || len(outcomes) != 1 || outcomes[0].Failure == "" || outcomes[0].HTTPStatus != 429 {
		t.Fatalf("%+v, %v", outcomes, err)
	}
	if n := b.count(t, "source_schedule WHERE next_read_at > now() + interval '110 minutes' AND claimed_by IS NULL"); n != 1 {
		t.Error("the source is due before the publisher asked for")
	}
	if b.count(t, "as_issued_failed_reads WHERE http_status = 429") != 1 || b.count(t, "as_issued_polls") != 0 {
		t.Error("not a failed read")
	}
}

func TestT36AnErrorWith200IsAFailedRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.replica(t, nil)
	for _, body := range []string{`{"error":{"code":498,"message":"Invalid Token","details":[]}}`, `<!DOCTYPE html><html></html>`, ``, `{"type":"FeatureCollection"}`, `{"type":"FeatureCollection","features":[`} {
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		b.publisher.handler.Store(&h)
		outcomes, err := p.ReadNow(t.Context(), "nws_alerts")
		if err != nil || outcomes[0].Failure == "" {
			t.Errorf("%q: %+v, %v", body, outcomes, err)
		}
	}
	if b.count(t, "as_issued_failed_reads WHERE http_status = 200") != 5 || b.count(t, "as_issued_polls")+b.count(t, "as_issued_products") != 0 {
		t.Error("not failed reads, or something was stored")
	}
}

// An answer of 304 is a poll; its validator speaks of the body that came last.
func TestConditionalRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publisher.items.Store(2)
	var asked atomic.Value
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Header.Get("If-None-Match"))
		w.Header().Set("ETag", `"e1"`)
		if r.Header.Get("If-None-Match") == `"e1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, b.publisher.body())
	})
	b.publisher.handler.Store(&h)
	p, _ := b.replica(t, nil)
	for range 3 {
		if outcomes, err := p.ReadNow(t.Context(), "nws_alerts"); err != nil || outcomes[0].Failure != "" {
			t.Fatalf("%+v, %v", outcomes, err)
		}
	}
	if b.count(t, "as_issued_polls WHERE http_status = 304 AND items_seen IS NULL AND items_new = 0") != 2 || b.count(t, "as_issued_polls") != 3 {
		t.Error("want one poll of a body and two of a 304")
	}
	// Somebody else's read of the request came in between: ask without condition.
	if _, err := b.feed.Exec(t.Context(), `INSERT INTO as_issued_polls (source, request, fetched_at, http_status, items_seen, items_new) VALUES ('nws_alerts', 'active', now(), 200, 0, 0)`); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ReadNow(t.Context(), "nws_alerts"); err != nil {
		t.Fatal(err)
	}
	if asked.Load() != "" {
		t.Errorf("asked with %v, although another read was stored since", asked.Load())
	}
}

func TestDryRunStoresNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.replica(t, nil)
	outcomes, err := p.DryRun(t.Context(), "nws_alerts")
	if err != nil || len(outcomes) != 1 || *outcomes[0].Seen != 480 || outcomes[0].New != 480 {
		t.Fatalf("%+v, %v", outcomes, err)
	}
	if n := b.count(t, "as_issued_polls") + b.count(t, "as_issued_products") + b.count(t, "source_schedule"); n != 0 {
		t.Errorf("a dry run left %d rows", n)
	}
	if _, err := p.DryRun(t.Context(), "nhc_surge"); !errors.Is(err, poll.ErrUnknown) {
		t.Errorf("a source that this archiver does not read: %v", err)
	}
}

// A source whose bodies are all new at every read is flagged, and what the
// metrics show of it is the same in every replica.
func TestT39ARestampedSourceIsFlagged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publisher.items.Store(3)
	p, _ := b.replica(t, nil)
	for range 5 {
		if _, err := p.ReadNow(t.Context(), "nws_alerts"); err != nil {
			t.Fatal(err)
		}
		b.publisher.edition.Add(1)
	}
	states, err := p.States(t.Context())
	if err != nil || len(states) != 1 || !states[0].Restamps() || states[0].Reads != 5 || states[0].LastReadAt == nil || states[0].LastFailureAt != nil {
		t.Errorf("%+v, %v", states, err)
	}
	other, registry := b.replica(t, nil)
	// Due for a minute, and held by nobody that still runs.
	if _, err := b.superuser.Exec(t.Context(), "UPDATE feed.source_schedule SET next_read_at = now() - interval '1 minute', claimed_by = gen_random_uuid(), claimed_until = now() - interval '1 second'"); err != nil {
		t.Fatal(err)
	}
	if err := other.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, within := range map[string][2]float64{
		"muniment_feed_items_new_share_day":        {1, 1},
		"muniment_feed_restamps":                   {1, 1},
		"muniment_feed_schedule_lag_seconds":       {55, 120},
		"muniment_feed_last_good_read_age_seconds": {0, 120},
	} {
		if got := gauge(t, registry, name); got < within[0] || got > within[1] {
			t.Errorf("%s is %v, want %v", name, got, within)
		}
	}
}

// A source that is being read is not late, however long it has been due.
func TestASourceThatIsReadIsNotLate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, registry := b.replica(t, nil)
	for until, within := range map[string][2]float64{"1 hour": {0, 0}, "-1 second": {55, 120}} {
		if _, err := b.superuser.Exec(t.Context(), `INSERT INTO feed.source_schedule (source, next_read_at, claimed_by, claimed_until)
			VALUES ('nws_alerts', now() - interval '1 minute', gen_random_uuid(), now() + $1::interval)
			ON CONFLICT (source) DO UPDATE SET next_read_at = excluded.next_read_at, claimed_until = excluded.claimed_until`, until); err != nil {
			t.Fatal(err)
		}
		if err := p.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := gauge(t, registry, "muniment_feed_schedule_lag_seconds"); got < within[0] || got > within[1] {
			t.Errorf("claimed until %s from now: late by %v, want %v", until, got, within)
		}
	}
}

// After a read a source is due again after its interval, a tenth more or less:
// sources of one interval do not fall into step.
func TestTheNextReadIsAnIntervalAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publisher.items.Store(1)
	p, _ := b.replica(t, nil) // once an hour
	least, most := time.Hour, time.Duration(0)
	for range 8 {
		if _, err := p.ReadNow(t.Context(), "nws_alerts"); err != nil {
			t.Fatal(err)
		}
		var seconds float64
		if err := b.superuser.QueryRow(t.Context(), "SELECT extract(epoch FROM next_read_at - now())::float8 FROM feed.source_schedule").Scan(&seconds); err != nil {
			t.Fatal(err)
		}
		away := time.Duration(seconds * float64(time.Second))
		least, most = min(least, away), max(most, away)
	}
	if least < 53*time.Minute || most > 66*time.Minute+time.Second || most-least < 15*time.Second {
		t.Errorf("reads of a source once an hour are between %s and %s away", least, most)
	}
}

// Of a publisher who says that nothing has changed, every body is new and none
// restamped.
func TestT39APublisherWhoSays304RestampsNothing(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]struct {
		poll.State
		restamps bool
	}{
		"all new":                  {state(5, 0, 15, 15), true},
		"too few reads to judge":   {state(4, 0, 12, 12), false},
		"nearly all new":           {state(100, 0, 1000, 900), true},
		"much of it seen before":   {state(100, 0, 1000, 899), false},
		"quiet":                    {state(100, 0, 0, 0), false},
		"new or not modified":      {state(100, 60, 40, 40), false},
		"not modified, and little": {state(8, 4, 4, 4), false},
	} {
		if got := want.Restamps(); got != want.restamps {
			t.Errorf("%s: %t", state, got)
		}
	}
}

func state(reads, unchanged, seen, fresh int64) poll.State {
	return poll.State{State: store.State{Reads: reads, Unchanged: unchanged, Seen: seen, New: fresh}}
}

func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

package poll_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/feeds"
	"github.com/muniment/muniment/services/feed-archiver/internal/feeds/feedtest"
	"github.com/muniment/muniment/services/feed-archiver/internal/fetch"
	"github.com/muniment/muniment/services/feed-archiver/internal/poll"
	"github.com/muniment/muniment/services/feed-archiver/internal/rights"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// everySource is a poller of all sources, pointed at the publishers' stand-in.
func (b bundle) everySource(t *testing.T, publishers *feedtest.Server, now func() time.Time) *poll.Poller {
	t.Helper()
	var settings struct {
		fetch.Settings
		Feeds feeds.Settings
	}
	if err := config.Load("MUNIMENT_FEED_", publishers.Environ(), &settings, nil); err != nil {
		t.Fatal(err)
	}
	client, err := fetch.New(settings.Settings, "test", time.Now)
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
	return poll.New(rows, writer, feeds.NewReader(client, &settings.Feeds, time.Now), &settings.Feeds,
		poll.Settings{ClaimLease: 10 * time.Second, LookEvery: time.Second}, registry, zap.NewNop(), now)
}

// readAll reads a source and says what became of each request, in a line each.
func readAll(t *testing.T, p *poll.Poller, source string) string {
	t.Helper()
	outcomes, err := p.ReadNow(t.Context(), source)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	lines := make([]string, 0, len(outcomes))
	for _, o := range outcomes {
		switch {
		case o.Failure != "":
			lines = append(lines, fmt.Sprintf("%s failed with %d", o.Request, o.HTTPStatus))
		case o.Seen == nil:
			lines = append(lines, o.Request+" not modified")
		default:
			lines = append(lines, fmt.Sprintf("%s %d, %d new", o.Request, *o.Seen, o.New))
		}
	}
	return strings.Join(lines, "\n")
}

// What depends on another source follows what that one's read held: through the
// pollers, from the publishers into the rows.
func TestDependentsAreReadThroughThePollers(t *testing.T) {
	t.Parallel()
	b, publishers := setup(t), feedtest.New(t)
	p := b.everySource(t, publishers, time.Now)
	const contours = "us70000001:us:us70000001:1781500010000"
	want := map[string]string{
		"nhc_atcf_best_track":    "al052026 1, 1 new\nep072026 failed with 404",
		"nhc_wind_swath":         "al052026 1, 1 new",
		"nhc_forecast_cone":      "al052026 1, 1 new",
		"nhc_surge":              "peak_surge 1, 1 new\nkml_al052026 1, 1 new",
		"usgs_shakemap_products": "us70000001 3, 3 new",
		"usgs_shakemap_contours": contours + " 1, 1 new",
	}
	order := []string{"nhc_atcf_best_track", "nhc_wind_swath", "nhc_forecast_cone", "nhc_surge", "usgs_shakemap_products", "usgs_shakemap_contours"}
	for _, source := range order {
		if got := readAll(t, p, source); got != "" {
			t.Errorf("%s asked before anything was held: %s", source, got)
		}
	}
	// Out of season a source looks again soon, and does not wait for its turn.
	if n := b.count(t, "source_schedule WHERE next_read_at < now() + interval '70 seconds'"); n != len(order) {
		t.Errorf("%d sources look again soon, want %d", n, len(order))
	}
	readAll(t, p, "nhc_current_storms")
	readAll(t, p, "usgs_earthquakes")
	for _, source := range order {
		if got := readAll(t, p, source); got != want[source] {
			t.Errorf("%s: %s; want %s", source, got, want[source])
		}
	}
	for _, row := range []string{
		`source = 'nhc_atcf_best_track' AND product_id = 'al052026' AND issued_at IS NULL AND encoding = 'text'`,
		`source = 'nhc_wind_swath' AND product_id = 'al052026_best_track.zip' AND issued_at IS NULL AND encoding = 'base64'`,
		`source = 'nhc_forecast_cone' AND product_id = 'al052026_5day_003.zip' AND issued_at IS NOT NULL AND encoding = 'base64'`,
		`source = 'nhc_surge' AND product_id = 'peak_surge' AND issued_at IS NULL AND encoding = 'json'`,
		`source = 'nhc_surge' AND product_id = 'AL052026_PeakStormSurge_003adv.kml' AND issued_at = '2026-08-02T03:00:00Z' AND encoding = 'text'`,
		`source = 'usgs_shakemap_contours' AND product_id = 'us70000001:cont_mmi:2' AND item_key = 'us:us70000001' AND issued_at IS NOT NULL AND request = '` + contours + `'`,
	} {
		if n := b.count(t, "as_issued_products WHERE "+row); n != 1 {
			t.Errorf("%d rows with %s, want 1", n, row)
		}
	}

	// What was held a day ago and not read since leads nowhere any more.
	tomorrow := b.everySource(t, publishers, func() time.Time { return time.Now().Add(25 * time.Hour) })
	if got := readAll(t, tomorrow, "nhc_wind_swath"); got != "" {
		t.Errorf("a day later the swath: %s", got)
	}

	// A failed read of the storms changes nothing: the last one that held
	// something still leads. A 304 neither.
	publishers.Answer("/CurrentStorms.json", feedtest.Answer{Status: 503}, feedtest.Answer{Status: 304})
	for _, is := range []string{"current failed with 503", "current not modified"} {
		if got := readAll(t, p, "nhc_current_storms"); got != is {
			t.Fatalf("%s; want %s", got, is)
		}
		if got := readAll(t, p, "nhc_forecast_cone"); got != "al052026 not modified" {
			t.Errorf("after %q the cone: %s", is, got)
		}
	}
	// A quiet one ends it.
	publishers.Answer("/CurrentStorms.json", feedtest.Answer{Body: []byte(`{"activeStorms":[]}`)})
	if got := readAll(t, p, "nhc_current_storms"); got != "current 0, 0 new" {
		t.Fatal(got)
	}
	for _, source := range order[:4] {
		if got := readAll(t, p, source); got != "" {
			t.Errorf("%s asked although no storm is active: %s", source, got)
		}
	}
}

// A read longer than the database lets one take would be thrown away at its
// end; such a setting is refused before the first read.
func TestAReadTimeoutOverTheDatabasesLimitIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.superuser.Exec(t.Context(), "UPDATE feed.as_issued_settings SET max_fetch_age = '20 seconds'"); err != nil {
		t.Fatal(err)
	}
	p, _ := b.replica(t, nil) // its reads may take 20 s
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := p.Run(ctx); err == nil || !strings.Contains(err.Error(), "READ_TIMEOUT (20s)") {
		t.Errorf("got %v", err)
	}
	if n := b.publisher.reads.Load(); n != 0 {
		t.Errorf("%d reads before it was refused", n)
	}
}

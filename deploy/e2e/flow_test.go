package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/testkit"
)

// delay is the crawls' least time between two captures at one host.
const delay = 400 * time.Millisecond

func (f *flow) spaced(t *testing.T) {
	t.Helper()
	gaps := f.gaps(t)
	if len(gaps) == 0 {
		t.Error("no two captures at one host: nothing is proven")
	}
	for _, g := range gaps {
		// The ledger keeps microseconds, cut.
		if g.after < delay-time.Microsecond {
			t.Errorf("%s came %s after the page before it at %s, want %s", g.url, g.after, g.host, delay)
		}
	}
}

// The real flow against the real ledger and true captures: two hosts side by
// side, spaced in a level, from level to level and from crawl to crawl, with two
// browsers, with one that is mostly busy, and with one of two gone.
func TestFlowOverTwoHosts(t *testing.T) {
	t.Parallel()
	f := newFlow(t, false)
	one, two := newSite(t, "127.0.0.1"), newSite(t, "127.0.0.2")
	browser := f.browser(t)
	order := map[string]any{"seeds": []string{one + "/", two + "/"}, "maxDepth": 1, "maxPages": 10, "perHostDelayMs": delay.Milliseconds()}

	f.browsers(t, browser, f.browser(t))
	id := f.start(t, order)
	got := f.ends(t, id)
	if got["state"] != "succeeded" || got["stopReason"] != "max_depth" && got["stopReason"] != "max_pages" || got["pagesDiscovered"] != 10.0 {
		t.Fatalf("the crawl: %v\n%s", got, f.ledger)
	}
	f.spaced(t)
	// Side by side: at each host a page was begun before the other host's last
	// one of the same level was over.
	const apart = `SELECT count(*) FROM (
		SELECT depth, host, min(submitted_at) AS began, max(finished_at) AS ended FROM ledger.crawl_pages
		WHERE crawl_id = $1 AND depth = 1 AND submitted_at IS NOT NULL GROUP BY depth, host) a
		JOIN (SELECT depth, host, min(submitted_at) AS began, max(finished_at) AS ended FROM ledger.crawl_pages
		WHERE crawl_id = $1 AND depth = 1 AND submitted_at IS NOT NULL GROUP BY depth, host) b ON a.host < b.host AND (a.began > b.ended OR b.began > a.ended)`
	if n := f.count(t, apart, id); n != 0 {
		t.Error("the hosts were crawled one after the other")
	}
	captured := int(got["pagesCaptured"].(float64))
	for what, sql := range map[string]string{
		"archives":    "SELECT count(*) FROM ledger.archives WHERE object_size > 1000",
		"outbox rows": "SELECT count(*) FROM outbox.fga_outbox",
		"pages":       "SELECT count(*) FROM ledger.crawl_pages WHERE state = 'captured'",
	} {
		if n := f.count(t, sql); n != captured || n < 8 {
			t.Errorf("%d %s of %d captured pages", n, what, captured)
		}
	}
	if n := f.count(t, "SELECT count(*) FROM ledger.capture_holes"); n != 0 {
		t.Errorf("%d holes are left", n)
	}

	// The next crawl begins at once and waits all the same; one browser for both
	// hosts is busy for one of them most of the time; another is gone.
	f.browsers(t, dead(), browser)
	got = f.ends(t, f.start(t, order))
	if got["state"] != "succeeded" || got["pagesCaptured"].(float64) < 8 {
		t.Errorf("with one browser: %v", got)
	}
	f.spaced(t)

	// No browser is left: the flow dies half-way and the crawl is closed.
	f.browsers(t, dead())
	id = f.start(t, order)
	got = f.ends(t, id)
	if got["state"] != "failed" || got["stopReason"] != "failed" || got["lastJob"] == nil || !strings.Contains(fmt.Sprint(got["error"]), got["lastJob"].(map[string]any)["id"].(string)) {
		t.Errorf("with no browser: %v", got)
	}
	if n := f.count(t, "SELECT count(*) FROM ledger.crawl_levels WHERE crawl_id = $1 AND replied_at IS NULL", id); n != 1 {
		t.Error("the level that died was reported")
	}
	if n := f.front.jobs.Load(); n != 5 {
		t.Errorf("%d jobs of five levels", n)
	}
}

// What a webhook may answer in place of a job. The crawl is closed with what it
// said; a job that was made all the same reports into the closed crawl, which
// keeps what it brings and sends nothing more.
func TestFlowWhoseWebhookFails(t *testing.T) {
	t.Parallel()
	f := newFlow(t, false, "WEBHOOK_TIMEOUT=1s")
	page := newSite(t, "127.0.0.1")
	f.browsers(t, f.browser(t))
	order := map[string]any{"seeds": []string{page + "/"}, "maxDepth": 1, "perHostDelayMs": 0}

	for want, answer := range map[string]http.HandlerFunc{
		"webhook answered 404: Not found: no flow f/muniment/gone": func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = strings.Replace(r.URL.Path, "crawl_level", "gone", 1)
			f.front.pass.ServeHTTP(w, r)
		},
		"webhook answered 500: out of workers": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "out of workers")
		},
		"webhook answered 200 without a job id: <!DOCTYPE html>": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<!DOCTYPE html>") },
	} {
		f.front.answers(answer)
		got := f.ends(t, f.start(t, order))
		if got["state"] != "failed" || strings.TrimSpace(fmt.Sprint(got["error"])) != want || got["lastJob"] != nil {
			t.Errorf("want %q, the crawl: %v", want, got)
		}
	}

	// The job is made after the caller gave up, and whatever it takes: its report
	// comes to a crawl that is closed.
	closed := make(chan struct{})
	f.front.answers(func(w http.ResponseWriter, r *http.Request) {
		order, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the order: %v", err)
		}
		select {
		case <-closed:
		case <-t.Context().Done():
			return
		}
		late := r.Clone(t.Context())
		late.Body = io.NopCloser(bytes.NewReader(order))
		f.front.hand(w, late)
	})
	id := f.start(t, order)
	got := f.ends(t, id)
	if got["state"] != "failed" || got["error"] != "webhook did not answer in time" {
		t.Errorf("a late answer: %v", got)
	}
	close(closed)
	testkit.Eventually(t, time.Minute, func() (bool, string) {
		n := f.count(t, "SELECT count(*) FROM ledger.crawl_levels WHERE crawl_id = $1 AND replied_at IS NOT NULL", id)
		return n == 1, fmt.Sprintf("the job has not reported: %d\n%s", n, f.ledger)
	})
	for what, want := range map[string]int{
		"SELECT count(*) FROM ledger.archives":                                            1,
		"SELECT count(*) FROM outbox.fga_outbox":                                          1,
		"SELECT count(*) FROM ledger.crawl_levels WHERE crawl_id = '" + id + "'":          1,
		"SELECT pages_captured::int FROM ledger.crawls WHERE id = '" + id + "'":           1,
		"SELECT count(*) FROM ledger.crawls WHERE state = 'failed' AND id = '" + id + "'": 1,
	} {
		if n := f.count(t, what); n != want {
			t.Errorf("%s: %d, want %d", what, n, want)
		}
	}
	// Nobody called again.
	if n := f.front.jobs.Load(); n != 1 {
		t.Errorf("%d jobs of one level", n)
	}
}

// With a sink, nothing comes into the bucket but through it: the browser has no
// store at hand, and every object lies under the crawl's prefix.
func TestFlowThroughTheSink(t *testing.T) {
	t.Parallel()
	f := newFlow(t, true)
	page := newSite(t, "127.0.0.1")
	f.browsers(t, newBrowser(t, nil, ""))
	month := time.Now().UTC().Format("2006-01")
	id := f.start(t, map[string]any{"seeds": []string{page + "/docs/one.html"}, "maxDepth": 1, "maxPages": 4, "perHostDelayMs": 0})
	got := f.ends(t, id)
	if got["state"] != "succeeded" || got["pagesCaptured"].(float64) < 2 {
		t.Fatalf("the crawl: %v\n%s", got, f.ledger)
	}
	captured := int(got["pagesCaptured"].(float64))
	if n := f.count(t, "SELECT count(*) FROM ledger.archives WHERE object_key LIKE 'org/acme/' || $1 || '/%' AND object_version_id <> '' AND object_size > 1000", month); n != captured {
		t.Errorf("%d archives under the prefix of %d captured pages", n, captured)
	}
	if n := f.count(t, "SELECT count(*) FROM ledger.capture_submissions WHERE manifest_key LIKE 'org/acme/' || $1 || '/%'", month); n < captured {
		t.Errorf("%d submissions with a manifest under the prefix", n)
	}
	if n := f.count(t, "SELECT count(*) FROM ledger.capture_holes"); n != 0 {
		t.Errorf("%d holes are left", n)
	}
}

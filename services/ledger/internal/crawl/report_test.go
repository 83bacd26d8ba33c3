package crawl_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/crawl"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

func TestScopeBudgetAndDedup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.begin(t, crawl.Order{Seeds: []string{"http://a.org", "http://A.org:80/#top", "http://a.org/2"}, MaxDepth: new(int32(2)), MaxPages: new(int32(5))})
	if c.PagesDiscovered != 2 {
		t.Fatalf("%d pages of two different seeds", c.PagesDiscovered)
	}
	reply := b.report(t, c.ID, 0,
		b.capture(t, "http://a.org/", "http://www.a.org/home", nil, "http://a.org/x#1", "http://a.org/x#2", "http://a.org/2", "https://a.org/tls", "http://b.org/", "mailto:x"),
		b.capture(t, "http://a.org/2", "http://a.org/2", nil, "http://www.a.org/y", "http://a.org/z", "http://a.org/over"))
	if got := urls(reply); got != "http://a.org/x http://www.a.org/y http://a.org/z " {
		t.Fatalf("next: %s", got)
	}
	if c = b.crawl(t, c.ID); c.State != "running" || c.PagesDiscovered != 5 || c.PagesCaptured != 2 || c.StopReason != nil {
		t.Errorf("%+v", c)
	}
	// A page that is no seed and leaves the scope extends nothing.
	reply = b.report(t, c.ID, 1, b.capture(t, "http://a.org/x", "http://b.org/", nil, "http://b.org/2", "http://a.org/unreached"))
	if got := urls(reply); got != "max_pages" {
		t.Errorf("the first reason that bit is kept; got %s", got)
	}
	if c = b.crawl(t, c.ID); c.State != "succeeded" || *c.StopReason != "max_pages" || c.FinishedAt == nil {
		t.Errorf("%+v", c)
	}
	if n := b.dispatched.Load(); n != 2 {
		t.Errorf("told the dispatcher %d times of two levels", n)
	}
}

func TestStopReasons(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		order crawl.Order
		links []string
		want  string
	}{
		{crawl.Order{Seeds: []string{"http://a/"}}, nil, "completed"},
		{crawl.Order{Seeds: []string{"http://a/"}}, []string{"http://a/", "http://b/"}, "completed"},
		{crawl.Order{Seeds: []string{"http://a/"}, MaxDepth: new(int32(0))}, []string{"http://a/1"}, "max_depth"},
		{crawl.Order{Seeds: []string{"http://a/"}, MaxPages: new(int32(1))}, []string{"http://a/1"}, "max_pages"},
		{crawl.Order{Seeds: []string{"http://a/"}, MaxPages: new(int32(1)), MaxDepth: new(int32(0))}, []string{"http://a/1"}, "max_depth"},
	} {
		started := b.begin(t, c.order)
		reply := b.report(t, started.ID, 0, b.capture(t, "http://a/", "http://a/", nil, c.links...))
		if got := urls(reply); got != c.want {
			t.Errorf("%+v: %s, want %s", c.order, got, c.want)
		}
	}
}

// The same report five times at once, and later, and after the crawl is closed:
// one reply, no second row, no second job.
func TestT06TheSameReportTwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.begin(t, crawl.Order{Seeds: []string{"http://a/"}, MaxDepth: new(int32(1))})
	result := b.capture(t, "http://a/", "http://a/", nil, "http://a/1", "http://a/2")
	var wg sync.WaitGroup
	replies := make([]string, 5)
	for i := range replies {
		wg.Go(func() {
			reply, err := b.Report(t.Context(), c, 0, []crawl.Result{result})
			if err != nil {
				t.Error(err)
			}
			replies[i] = urls(reply)
		})
	}
	wg.Wait()
	const want = "submissions 1 holes 0 archives 1 outbox 1 levels 2 pages 3"
	if got := b.counts(t); got != want {
		t.Errorf("got %s", got)
	}
	if _, err := b.rows.CloseCrawl(t.Context(), c.ID, store.StopStopped, nil, start); err != nil {
		t.Fatal(err)
	}
	for _, reply := range append(slices.Clip(replies), urls(b.report(t, c.ID, 0, result))) {
		if reply != "http://a/1 http://a/2 " {
			t.Errorf("a reply of its own: %s", reply)
		}
	}
	if got := b.counts(t); got != want {
		t.Errorf("after the close: %s", got)
	}
	// A re-run step brings new tasks: recorded and admitted, the rest stays.
	reply := b.report(t, c.ID, 0, b.capture(t, "http://a/", "http://a/", nil, "http://a/other"))
	if got := urls(reply); got != "http://a/1 http://a/2 " {
		t.Errorf("a re-run changed the reply: %s", got)
	}
	if got := b.counts(t); got != "submissions 2 holes 0 archives 2 outbox 2 levels 2 pages 3" {
		t.Errorf("after the re-run: %s", got)
	}
	if c = b.crawl(t, c.ID); c.PagesCaptured != 1 || c.PagesDiscovered != 3 {
		t.Errorf("counted twice: %+v", c)
	}
}

func TestT06AFirstReportToAClosedCrawlRecordsAndStartsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.begin(t, crawl.Order{Seeds: []string{"http://a/"}})
	if _, err := b.rows.CloseCrawl(t.Context(), c.ID, store.StopStopped, nil, start); err != nil {
		t.Fatal(err)
	}
	reply := b.report(t, c.ID, 0, b.capture(t, "http://a/", "http://a/", nil, "http://a/1"))
	if got := urls(reply); got != "stopped" {
		t.Errorf("got %s", got)
	}
	if got := b.counts(t); got != "submissions 1 holes 0 archives 1 outbox 1 levels 1 pages 1" {
		t.Errorf("got %s", got)
	}
	if c = b.crawl(t, c.ID); c.State != "failed" || *c.StopReason != "stopped" || c.PagesCaptured != 1 {
		t.Errorf("%+v", c)
	}
}

func TestT08OnlyWhatExistsGetsIn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.begin(t, crawl.Order{Seeds: []string{"http://a/"}, MaxDepth: new(int32(0))})
	empty := b.put(t, "empty.wacz", nil)
	artifacts := func(format, location string) func(map[string]any) {
		return func(m map[string]any) { m["artifacts"] = map[string]any{format: location} }
	}
	raw := func(body string) crawl.Result {
		location := b.put(t, uuid.NewString()+".result.json", []byte(body))
		return crawl.Result{URL: "http://a/x", Status: "captured", TaskID: new(uuid.New()), ManifestLocation: &location}
	}
	elsewhere := raw("{}")
	elsewhere.ManifestLocation = new("s3://elsewhere/k")
	missing := raw("{}")
	missing.ManifestLocation = new("s3://" + b.bucket + "/nobody.result.json")
	b.report(t, c.ID, 0,
		b.capture(t, "http://a/", "http://a/", nil),                                                   // the only good one
		b.capture(t, "http://a/", "http://a/", artifacts("png", "s3://"+b.bucket+"/p.png")),           // never
		b.capture(t, "http://a/", "http://a/", artifacts("wacz", "s3://elsewhere/w.wacz")),            // never
		b.capture(t, "http://a/", "http://a/", func(m map[string]any) { m["taskId"] = uuid.New() }),   // never
		b.capture(t, "http://a/", "http://a/", func(m map[string]any) { m["status"] = "failed" }),     // never
		b.capture(t, "http://a/", "http://a/", artifacts("wacz", "s3://"+b.bucket+"/not-there.wacz")), // later
		b.capture(t, "http://a/", "http://a/", artifacts("wacz", empty)),                              // later
		raw("<!DOCTYPE html>"), raw(`{"taskId":`), raw(`{"x":"`+strings.Repeat("y", 2<<20)+`"}`), missing, // later
		elsewhere, // recorded as an error
	)
	if got := b.counts(t); got != "submissions 12 holes 6 archives 1 outbox 1 levels 1 pages 1" {
		t.Errorf("got %s", got)
	}
	if n := b.count(t, "SELECT count(*) FROM ledger.capture_submissions WHERE manifest_error = $1", "manifestLocation is in another bucket than "+b.bucket); n != 1 {
		t.Error("the location elsewhere was not recorded as an error")
	}
	if n := b.count(t, "SELECT count(*) FROM ledger.archives WHERE object_etag <> '' AND object_size = 7 AND object_version_id <> '' AND captured_at = '2026-11-30T11:59:00.123456Z'"); n != 1 {
		t.Error("the archive row lacks what was seen of its object, or its time was rounded")
	}
}

func TestAFailedPageWhoseManifestSaysSuccessIsCaptured(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.begin(t, crawl.Order{Seeds: []string{"http://a/", "http://a/2"}})
	late := b.capture(t, "http://a/", "http://a/", nil, "http://a/next")
	late.Status = "failed"
	broken := b.capture(t, "http://a/2", "http://a/2", func(m map[string]any) {
		m["status"], m["errorDetails"] = "timeout", map[string]any{"type": "timeout", "message": "Navigation timeout"}
	})
	broken.Status = "failed"
	if got := urls(b.report(t, c.ID, 0, late, broken)); got != "http://a/next " {
		t.Errorf("next: %s", got)
	}
	failures, err := b.rows.Failures(t.Context(), c.ID, 5)
	if err != nil || len(failures) != 1 || failures[0].Url != "http://a/2" || *failures[0].Reason != "Navigation timeout" {
		t.Errorf("failures %+v, %v", failures, err)
	}
}

func TestAnUnknownLevelStoresNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.begin(t, crawl.Order{Seeds: []string{"http://a/"}})
	if _, err := b.Report(t.Context(), c, 3, []crawl.Result{b.capture(t, "http://a/", "http://a/", nil)}); err == nil {
		t.Error("a level that was never dispatched was reported")
	}
	if n := b.count(t, "SELECT count(*) FROM ledger.capture_submissions"); n != 0 {
		t.Errorf("%d submissions", n)
	}
}

// The nine captures of a real BrowserHive, through a real report.
func TestRealCapturesThroughALevelReport(t *testing.T) {
	t.Parallel()
	dir := captures(t)
	s3 := testkit.Bucket(t)
	b := setupIn(t, s3, "browserhive")
	if err := b.s3.MakeBucket(t.Context(), "browserhive", minio.MakeBucketOptions{}); err != nil && minio.ToErrorResponse(err).Code != "BucketAlreadyOwnedByYou" {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_harbor.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b.put(t, filepath.Base(file), body)
	}
	const site = "http://127.0.0.1:58500"
	c := b.begin(t, crawl.Order{Seeds: []string{site + "/", site + "/moved"}, MaxDepth: new(int32(1))})
	result := func(task, url, status string) crawl.Result {
		name := "s3://browserhive/" + task + "_ab12cd34_harbor"
		r := crawl.Result{URL: url, Status: status, TaskID: new(uuid.MustParse(task)), ManifestLocation: new(name + ".result.json")}
		if status == "captured" {
			r.LinksLocation = new(name + ".links.json")
		}
		return r
	}
	next := b.report(t, c.ID, 0,
		result("5d20d20c-9831-4b3a-9b9b-5b62d72f22c0", site+"/", "captured"),
		result("b74cb3cb-7666-446b-bc59-5a9b2f59bf54", site+"/moved", "captured"))
	got := urls(next)
	for _, want := range []string{site + "/docs/one.html ", site + "/docs/two.html ", site + "/docs/%E6%B8%AF.html ", site + "/docs/deep.html "} {
		if !strings.Contains(got, want) {
			t.Errorf("next lacks %s: %s", want, got)
		}
	}
	if strings.Contains(got, "private") || strings.Contains(got, "#") || strings.Contains(strings.ReplaceAll(got, site, ""), "http") {
		t.Errorf("next holds what must not be followed: %s", got)
	}
	reply := b.report(t, c.ID, 1,
		result("941b72b0-a6ac-4b41-bdc6-178f5f21d3fa", site+"/docs/one.html", "captured"),
		result("60abf22c-807b-4980-a8f3-d98cafab641d", site+"/docs/two.html", "captured"),
		result("eb524104-4806-4dc5-a78b-907ad2c9953d", site+"/docs/%E6%B8%AF.html", "captured"),
		result("0a71640c-25b6-4352-81c1-7f56679c6d88", site+"/docs/deep.html", "captured"),
		result("c4b9e947-1346-4c70-a811-e1ae293aa90f", site+"/missing.html", "failed"),
		result("185edd68-69d0-422e-a03e-2b6d7a460125", "http://127.0.0.1:58599/refused", "failed"),
		result("c2761b87-9511-4b2e-bb87-699d5f30e470", site+"/slow", "failed"))
	if urls(reply) != "max_depth" {
		t.Errorf("the crawl ends %s", urls(reply))
	}
	if n := b.count(t, "SELECT count(*) FROM ledger.capture_submissions"); n != 9 {
		t.Errorf("%d submissions, want 9", n)
	}
	for complete, want := range map[string]int{"true": 5, "false": 1} {
		if n := b.count(t, "SELECT count(*) FROM ledger.archives WHERE wacz_complete = "+complete+" AND signed IS NULL"); n != want {
			t.Errorf("%d archives with completeness %s, want %d", n, complete, want)
		}
	}
	if n := b.count(t, "SELECT count(*) FROM ledger.capture_holes"); n != 0 {
		t.Errorf("%d holes are left", n)
	}
}

// captures finds ../shared/captures beside the repository.
func captures(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		found := filepath.Join(dir, "shared", "captures")
		if _, err := os.Stat(found); err == nil {
			return found
		}
	}
	t.Skip("../shared/captures is not here; it lies beside the repository's checkout")
	return ""
}

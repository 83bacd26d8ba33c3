package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// replica is a further ledger on the same engines.
func (l *ledger) replica(t *testing.T) *ledger {
	t.Helper()
	other := *l
	other.output, other.process = &lockedBuffer{}, nil
	other.grpc, other.http = testkit.FreeAddress(t), testkit.FreeAddress(t)
	other.env = slices.Clone(l.env)
	for i, line := range other.env {
		for name, value := range map[string]string{"GRPC_ADDRESS": other.grpc, "HTTP_ADDRESS": other.http, "DEBUG_ADDRESS": testkit.FreeAddress(t)} {
			if strings.HasPrefix(line, prefix+name+"=") {
				other.env[i] = prefix + name + "=" + value
			}
		}
	}
	return &other
}

// jobs answers as a workflow engine that takes everything.
func jobs(w http.ResponseWriter) { fmt.Fprint(w, uuid.NewString()) }

// captured is one captured page in a report, with everything in the bucket.
func (l *ledger) captured(t *testing.T, page string, links ...string) map[string]any {
	t.Helper()
	task := uuid.New()
	listed := []map[string]any{}
	for _, href := range links {
		listed = append(listed, map[string]any{"href": href, "rel": nil})
	}
	file, err := json.Marshal(map[string]any{"finalUrl": page, "links": listed})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"url": page, "status": "captured", "taskId": task.String(),
		"manifestLocation": l.put(t, task.String()+".result.json", l.capture(t, task)),
		"linksLocation":    l.put(t, task.String()+".links.json", string(file)),
	}
}

// One level, reported five times at once and half a second apart, to two
// replicas; after the crawl was closed; and with new tasks by a step that ran
// again.
func TestT06OneLevelReportedToTwoReplicas(t *testing.T) {
	t.Parallel()
	f := newFlow(t, jobs)
	one := newLedger(t, "WEBHOOK_URL="+f.URL, "SINK_ORIGIN=http://127.0.0.1:1")
	for i, line := range one.env { // the bucket is BrowserHive's own
		if strings.HasPrefix(line, prefix+"SINK_") {
			one.env[i] = "UNSET="
		}
	}
	two := one.replica(t)
	one.start(t)
	two.start(t)
	one.grant(t, "alice", "acme")
	one.grant(t, "windmill", "acme")
	alice, windmill := one.issuer.Token("alice", "acme"), one.issuer.Token("windmill")
	id := one.call(t, 202, "POST", "/api/crawls", alice, `{"seeds":["http://a.org/"],"maxDepth":1}`)["crawlId"].(string)
	f.next(t)
	pages := "/api/crawls/" + id + "/pages"
	report := map[string]any{"depth": 0, "results": []any{one.captured(t, "http://a.org/", "http://a.org/1", "http://a.org/2")}}
	rows := func() string {
		return fmt.Sprintf("submissions %d holes %d archives %d outbox %d levels %d pages %d",
			one.count(t, "SELECT count(*) FROM ledger.capture_submissions"), one.count(t, "SELECT count(*) FROM ledger.capture_holes"),
			one.count(t, "SELECT count(*) FROM ledger.archives"), one.count(t, "SELECT count(*) FROM outbox.fga_outbox"),
			one.count(t, "SELECT count(*) FROM ledger.crawl_levels"), one.count(t, "SELECT count(*) FROM ledger.crawl_pages"))
	}

	var mu sync.Mutex
	var replies []map[string]any
	var reporters sync.WaitGroup
	say := func(l *ledger, after time.Duration) {
		reporters.Go(func() {
			time.Sleep(after) // the stated distance between two reports
			status, reply, err := l.try("POST", pages, windmill, report)
			if err != nil || status != http.StatusOK {
				t.Errorf("%d %v %v", status, reply, err)
			}
			mu.Lock()
			defer mu.Unlock()
			replies = append(replies, reply)
		})
	}
	for i := range 5 {
		say([]*ledger{one, two}[i%2], 0)
	}
	say(one, 500*time.Millisecond)
	say(two, 500*time.Millisecond)
	reporters.Wait()
	if order := f.next(t); order["depth"] != 1.0 {
		t.Errorf("the second order: %v", order)
	}
	const want = "submissions 1 holes 0 archives 1 outbox 1 levels 2 pages 3"
	if got := rows(); got != want {
		t.Errorf("rows: %s, want %s", got, want)
	}

	// A step that ran again, then the crawl's end, then both once more.
	again := map[string]any{"depth": 0, "results": []any{one.captured(t, "http://a.org/", "http://a.org/other")}}
	replies = append(replies, two.call(t, 200, "POST", pages, windmill, again))
	if got := rows(); got != "submissions 2 holes 0 archives 2 outbox 2 levels 2 pages 3" {
		t.Errorf("after the re-run: %s", got)
	}
	if closed := two.call(t, 200, "POST", "/api/crawls/"+id+"/failed", windmill, `{"reason":"test"}`); closed["closed"] != true {
		t.Errorf("closing: %v", closed)
	}
	third := map[string]any{"depth": 0, "results": []any{one.captured(t, "http://a.org/")}}
	for _, late := range []any{report, again, third} {
		replies = append(replies, one.call(t, 200, "POST", pages, windmill, late), two.call(t, 200, "POST", pages, windmill, late))
	}
	if got := rows(); got != "submissions 3 holes 0 archives 3 outbox 3 levels 2 pages 3" {
		t.Errorf("after the end: %s", got)
	}
	for _, reply := range replies {
		if !reflect.DeepEqual(reply, replies[0]) || len(reply["next"].([]any)) != 2 || reply["stopReason"] != nil {
			t.Errorf("a reply of its own: %v", reply)
		}
	}
	// The first report of the second level comes to a closed crawl.
	first := one.call(t, 200, "POST", pages, windmill, map[string]any{"depth": 1, "results": []any{one.captured(t, "http://a.org/1", "http://a.org/deep")}})
	if len(first["next"].([]any)) != 0 || first["stopReason"] != "failed" {
		t.Errorf("a report after the end: %v", first)
	}
	if got := one.call(t, 200, "GET", "/api/crawls/"+id, alice, nil); got["pagesCaptured"] != 2.0 || got["pagesDiscovered"] != 3.0 {
		t.Errorf("counted twice: %v", got)
	}
	if n := len(f.orders); n != 0 {
		t.Errorf("%d jobs more than two levels", n)
	}
}

// A level that nobody reports: its crawl is closed by one of two replicas, once,
// with the reason; what comes in later is recorded all the same, and the next
// crawl may start.
func TestAnOverdueLevelClosesItsCrawlOnce(t *testing.T) {
	t.Parallel()
	f := newFlow(t, jobs)
	one := newLedger(t, "WEBHOOK_URL="+f.URL, "SINK_ORIGIN=http://127.0.0.1:1", "LEVEL_BASE=1s", "LEVEL_PER_PAGE=0s")
	two := one.replica(t)
	one.start(t)
	two.start(t)
	one.grant(t, "alice", "acme")
	alice := one.issuer.Token("alice", "acme")
	id := one.call(t, 202, "POST", "/api/crawls", alice, `{"seeds":["http://a.org/"],"perHostDelayMs":0}`)["crawlId"].(string)
	f.next(t)
	var got map[string]any
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		got = two.call(t, 200, "GET", "/api/crawls/"+id, alice, nil)
		return got["state"] == "failed", fmt.Sprint(got)
	})
	if got["stopReason"] != "failed" || !strings.HasPrefix(fmt.Sprint(got["error"]), "level 0 is overdue: not reported by ") {
		t.Errorf("the crawl: %v", got)
	}
	said := strings.Count(one.output.String(), "its level is overdue") + strings.Count(two.output.String(), "its level is overdue")
	if said != 1 {
		t.Errorf("closed by %d replicas", said)
	}
	late := one.call(t, 200, "POST", "/api/crawls/"+id+"/pages", alice, `{"depth":0,"results":[{"url":"http://a.org/","status":"failed","taskId":"`+uuid.NewString()+`","manifestError":"late"}]}`)
	if len(late["next"].([]any)) != 0 || late["stopReason"] != "failed" {
		t.Errorf("a late report: %v", late)
	}
	if n := one.count(t, "SELECT count(*) FROM ledger.capture_submissions"); n != 1 {
		t.Errorf("%d submissions of the late report", n)
	}
	one.call(t, 202, "POST", "/api/crawls", alice, `{"seeds":["http://a.org/"]}`)
}

// Stopping: what is out is recorded, nothing further goes out.
func TestAStoppedCrawlDispatchesNothingMore(t *testing.T) {
	t.Parallel()
	f := newFlow(t, jobs)
	l := newLedger(t, "WEBHOOK_URL="+f.URL, "SINK_ORIGIN=http://127.0.0.1:1")
	l.start(t)
	l.grant(t, "alice", "acme")
	alice := l.issuer.Token("alice", "acme")
	id := l.call(t, 202, "POST", "/api/crawls", alice, `{"seeds":["http://a.org/"]}`)["crawlId"].(string)
	f.next(t)
	for _, want := range []bool{true, false} {
		if got := l.call(t, 200, "POST", "/api/crawls/"+id+"/stop", alice, nil); got["stopped"] != want {
			t.Errorf("stopping: %v, want %v", got, want)
		}
	}
	reply := l.call(t, 200, "POST", "/api/crawls/"+id+"/pages", alice, map[string]any{"depth": 0, "results": []any{l.captured(t, "http://a.org/", "http://a.org/next")}})
	if len(reply["next"].([]any)) != 0 || reply["stopReason"] != "stopped" {
		t.Errorf("the report's reply: %v", reply)
	}
	got := l.call(t, 200, "GET", "/api/crawls/"+id, alice, nil)
	if got["state"] != "failed" || got["stopReason"] != "stopped" || got["pagesCaptured"] != 1.0 || got["pagesDiscovered"] != 1.0 {
		t.Errorf("the crawl: %v", got)
	}
	// The next crawl's order is the next one that goes out.
	next := l.call(t, 202, "POST", "/api/crawls", alice, `{"seeds":["http://b.org/"]}`)["crawlId"]
	if order := f.next(t); order["crawl_id"] != next {
		t.Errorf("a level of the stopped crawl went out: %v", order)
	}
}

// More crawls than a page holds, some started at the same instant: all of them
// come once, newest first.
func TestCrawlsAreListedPageByPage(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1")
	const n = 130
	superuser := l.db.Pool(t, "superuser")
	_, err := superuser.Exec(t.Context(), `INSERT INTO ledger.crawls (org_id, seeds, scope, scope_keys, max_depth, max_pages, per_host_delay_ms, host_parallelism, state, stop_reason, started_at, finished_at)
		SELECT CASE WHEN i % 13 = 0 THEN 'beta' ELSE 'acme' END, '{http://a/}', 'same-host', '{a}', 0, 1, 0, 1, 'failed', 'stopped', timestamptz '2026-11-30T12:00:00.123456Z' - (i / 3) * interval '1 minute', now()
		FROM generate_series(1, $1) i`, n)
	if err != nil {
		t.Fatal(err)
	}
	l.start(t)
	l.grant(t, "alice", "acme")
	alice := l.issuer.Token("alice", "acme", "beta")
	seen := map[string]bool{}
	last, pages, path := "9999", 0, "/api/crawls?state=failed"
	for {
		page := l.call(t, 200, "GET", path, alice, nil)
		pages++
		for _, c := range page["crawls"].([]any) {
			crawl := c.(map[string]any)
			if started := crawl["startedAt"].(string); started > last {
				t.Errorf("%s after %s", started, last)
			} else {
				last = started
			}
			seen[crawl["crawlId"].(string)] = true
		}
		if page["nextPageToken"] == nil {
			break
		}
		path = "/api/crawls?state=failed&pageToken=" + page["nextPageToken"].(string)
	}
	// Of beta's, which alice may not submit for, none.
	if want := n - n/13; len(seen) != want || pages != 3 {
		t.Errorf("%d crawls on %d pages, want %d on 3", len(seen), pages, want)
	}
	l.call(t, 400, "GET", "/api/crawls?pageToken=x", alice, nil)
	if none := l.call(t, 200, "GET", "/api/crawls?state=running", alice, nil); len(none["crawls"].([]any)) != 0 {
		t.Errorf("running: %v", none)
	}
}

// The reconciler walks through all holes by pages, and closes those that it has
// decided on.
func TestHolesAreListedPageByPageAndClosed(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1")
	rows := store.New(l.db.Pool(t, "ledger"))
	crawl := store.Crawl{ID: uuid.New(), OrgID: "acme", Seeds: []string{"http://a/"}, Scope: "same-origin", ScopeKeys: []string{"http://a"}, MaxPages: 30, HostParallelism: 1, StartedAt: time.Now()}
	if err := rows.StartCrawl(t.Context(), crawl, []store.Page{{URL: "http://a/", Host: "a"}}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	submitted := time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)
	submissions := make([]store.NewSubmission, 25)
	for i := range submissions {
		key := fmt.Sprintf("%d.result.json", i)
		submissions[i] = store.NewSubmission{TaskID: uuid.New(), CorrelationID: "c", SubmittedAt: submitted, ManifestKey: &key}
	}
	if err := rows.RecordSubmissions(t.Context(), crawl, submissions); err != nil {
		t.Fatal(err)
	}
	l.start(t)
	registry := ledgerv1.NewRegistryServiceClient(l.dial(t, "reconciler"))
	walk := func() (found []*ledgerv1.Hole, pages int) {
		var after *string
		for {
			page, err := registry.ListHoles(t.Context(), &ledgerv1.ListHolesRequest{PageSize: 10, AfterTaskId: after})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.GetHoles()) == 0 {
				return found, pages
			}
			pages++
			found = append(found, page.GetHoles()...)
			last := found[len(found)-1].GetTaskId()
			after = &last
		}
	}
	found, pages := walk()
	keys := map[string]bool{}
	for _, h := range found {
		keys[h.GetManifestKey()] = h.GetBucket() == l.s3.Bucket && h.GetSubmittedAt().AsTime().Equal(submitted)
	}
	if len(found) != 25 || pages != 3 || len(keys) != 25 || !keys["24.result.json"] {
		t.Errorf("%d holes on %d pages: %v", len(found), pages, keys)
	}
	task := submissions[3].TaskID.String()
	for _, want := range []bool{true, false} {
		closed, err := registry.CloseHole(t.Context(), &ledgerv1.CloseHoleRequest{TaskId: task, Reason: "never"})
		if err != nil || closed.GetClosed() != want {
			t.Errorf("closing: %v, %v, want %v", closed, err, want)
		}
	}
	if left, _ := walk(); len(left) != 24 || slices.ContainsFunc(left, func(h *ledgerv1.Hole) bool { return h.GetTaskId() == task }) {
		t.Errorf("%d holes are left", len(left))
	}
	if _, err := registry.CloseHole(context.Background(), &ledgerv1.CloseHoleRequest{TaskId: "x"}); err == nil {
		t.Error("a task that is none was closed")
	}
}

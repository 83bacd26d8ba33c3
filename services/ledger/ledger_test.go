package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/grpcx"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// kill -9 in a loop while captures are admitted: afterwards every archive has
// exactly one outbox row, and no outbox row is without its archive.
func TestT07KilledWhileAdmitting(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1")
	n := testkit.Soak(60, 1000)
	rows := store.New(l.db.Pool(t, "ledger"))
	crawl := store.Crawl{ID: uuid.New(), OrgID: "acme", Seeds: []string{"http://a/"}, Scope: "same-origin", ScopeKeys: []string{"http://a"}, MaxPages: 30, HostParallelism: 1, StartedAt: time.Now()}
	if err := rows.StartCrawl(t.Context(), crawl, []store.Page{{URL: "http://a/", Host: "a"}}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	submissions := make([]store.NewSubmission, n)
	manifests := make(map[uuid.UUID]string, n)
	for i := range submissions {
		task := uuid.New()
		key := task.String() + ".result.json"
		submissions[i] = store.NewSubmission{TaskID: task, CorrelationID: "c", SubmittedAt: time.Now(), ManifestKey: &key}
		manifests[task] = l.capture(t, task)
	}
	if err := rows.RecordSubmissions(t.Context(), crawl, submissions); err != nil {
		t.Fatal(err)
	}
	kills := 0
	for left := keys(manifests); len(left) > 0; kills++ {
		l.start(t)
		left = l.admitUntilKilled(t, left, manifests, 1+rand.IntN(n/8))
	}
	t.Logf("%d admissions, %d kills", n, kills)
	for sql, want := range map[string]int{
		"SELECT count(*) FROM ledger.archives":      n,
		"SELECT count(*) FROM outbox.fga_outbox":    n,
		"SELECT count(*) FROM ledger.capture_holes": 0,
		"SELECT count(*) FROM ledger.archives a JOIN outbox.fga_outbox o ON o.payload->'writes'->0->>'object' = 'archive:' || a.id": n,
	} {
		if got := l.count(t, sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
}

func keys(manifests map[uuid.UUID]string) []uuid.UUID {
	var tasks []uuid.UUID
	for task := range manifests {
		tasks = append(tasks, task)
	}
	return tasks
}

// admitUntilKilled has four callers admit tasks, kills the ledger when some have
// been admitted and others are under way, and returns those without an answer.
func (l *ledger) admitUntilKilled(t *testing.T, tasks []uuid.UUID, manifests map[uuid.UUID]string, some int) []uuid.UUID {
	t.Helper()
	conn, err := grpcx.Dial(l.grpc, "ledger", l.certs.Files("reconciler"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	registry := ledgerv1.NewRegistryServiceClient(conn)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	enough := make(chan struct{})
	var admitted atomic.Int64
	var mu sync.Mutex
	var left []uuid.UUID
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			for i := caller; i < len(tasks); i += 4 {
				_, err := registry.AdmitManifest(ctx, &ledgerv1.AdmitManifestRequest{TaskId: tasks[i].String(), Manifest: []byte(manifests[tasks[i]])})
				if err != nil {
					mu.Lock()
					left = append(left, tasks[i])
					mu.Unlock()
				} else if admitted.Add(1) == int64(some) {
					close(enough)
				}
			}
		})
	}
	all := make(chan struct{})
	go func() { callers.Wait(); close(all) }()
	select {
	case <-enough:
	case <-all:
	}
	l.kill(t)
	cancel()
	<-all
	return left
}

func TestACrawlOverTheGateway(t *testing.T) {
	t.Parallel()
	job := uuid.NewString()
	f := newFlow(t, func(w http.ResponseWriter) { fmt.Fprintf(w, "%q", job) })
	l := newLedger(t, "WEBHOOK_URL="+f.URL+"/api/w/x/jobs/run/f/crawl_level", "SINK_ORIGIN=https://sink.example")
	l.start(t)
	l.grant(t, "alice", "acme")
	l.grant(t, "windmill", "acme")
	l.grant(t, "bert", "beta")
	alice, windmill := l.issuer.Token("alice", "acme", "other"), l.issuer.Token("windmill")
	mallory, bert := l.issuer.Token("mallory", "acme"), l.issuer.Token("bert", "beta")

	for _, bad := range []string{
		`{}`, `{"seeds":[]}`, `{"seeds":["http://a/"],"fromTargets":{}}`, `{"seeds":["http://a/","ftp://a/"]}`, `{"seeds":["http://a/"],"maxpages":5}`,
		`{"seeds":["http://a/"],"maxDepth":11}`, `{"seeds":["http://a/"],"orgId":"ac#me"}`, `{"seeds":["http://a/"],"maxPages":9223372036854775808}`,
	} {
		l.call(t, 400, "POST", "/api/crawls", alice, bad)
	}
	l.call(t, 400, "POST", "/api/crawls", alice, `{"fromTargets":{}}`)
	l.call(t, 404, "POST", "/api/crawls", mallory, `{"seeds":["http://a/"]}`)
	l.call(t, 404, "POST", "/api/crawls", alice, `{"seeds":["http://a/"],"orgId":"other"}`)

	id := l.call(t, 202, "POST", "/api/crawls", alice, `{"seeds":["http://a.org/"],"maxDepth":"1","perHostDelayMs":0}`)["crawlId"].(string)
	order := f.next(t)
	sink := order["artifact_sink"].(map[string]any)
	delete(order, "artifact_sink")
	var want map[string]any
	_ = json.Unmarshal([]byte(`{"crawl_id":"`+id+`","depth":0,"frontier":[{"url":"http://a.org/","host":"a.org","lastFinishedAt":null}],"per_host_delay_ms":0,"host_parallelism":4,
		"capture_formats":{"png":false,"webp":false,"html":false,"links":true,"mhtml":false,"wacz":true},"signing":false,"scripts":[]}`), &want)
	if !reflect.DeepEqual(order, want) || sink["url"] != "https://sink.example/api/sink/"+id || sink["token"] == "" {
		t.Errorf("the webhook got %v and %v", order, sink)
	}
	if conflict := l.call(t, 409, "POST", "/api/crawls", alice, `{"seeds":["http://b.org/"]}`); conflict["crawlId"] != id || conflict["startedAt"] == nil {
		t.Errorf("409 %v", conflict)
	}
	if conflict := l.call(t, 409, "POST", "/api/crawls", bert, `{"seeds":["http://b.org/"]}`); conflict["crawlId"] != nil || conflict["startedAt"] != nil {
		t.Errorf("409 names a foreign crawl: %v", conflict)
	}
	for _, path := range []string{"/api/crawls/" + id, "/api/crawls/" + uuid.NewString()} {
		l.call(t, 404, "GET", path, bert, nil)
	}
	l.call(t, 404, "POST", "/api/crawls/"+id+"/stop", bert, nil)

	task := uuid.New()
	manifest := l.put(t, task.String()+".result.json", strings.Replace(l.capture(t, task), task.String()+".wacz", "elsewhere.wacz", 1))
	report := `{"depth":0,"results":[{"url":"http://a.org/","status":"captured","taskId":"` + task.String() + `","manifestLocation":"` + manifest + `"},
		{"url":"http://a.org/x","status":%q},{"url":"http://a.org/y","status":"failed","skipReason":"400"}]}`
	l.call(t, 400, "POST", "/api/crawls/"+id+"/pages", windmill, fmt.Sprintf(report, "Captured"))
	l.call(t, 400, "POST", "/api/crawls/"+id+"/pages", windmill, `{"depth":0,"results":[{"url":"http://a.org/","status":"captured","taskId":"","manifestLocation":"`+manifest+`"}]}`)
	l.call(t, 400, "POST", "/api/crawls/"+id+"/pages", windmill, `{"depth":0,"results":[{"url":"http://a.org/","status":"captured","taskId":"`+task.String()+`"}]}`)
	if n := l.count(t, "SELECT count(*) FROM ledger.capture_submissions"); n != 0 {
		t.Errorf("a refused report stored %d submissions", n)
	}
	reply := l.call(t, 200, "POST", "/api/crawls/"+id+"/pages", windmill, fmt.Sprintf(report, "skipped"))
	if !reflect.DeepEqual(reply, map[string]any{"next": []any{}, "stopReason": "completed"}) {
		t.Errorf("the report's reply: %v", reply)
	}
	// The WACZ is not under the crawl's sink prefix: it never gets in.
	if n := l.count(t, "SELECT count(*) FROM ledger.archives"); n != 0 {
		t.Errorf("%d archives", n)
	}
	got := l.call(t, 200, "GET", "/api/crawls/"+id, alice, nil)
	if got["state"] != "succeeded" || got["stopReason"] != "completed" || got["error"] != nil || got["pagesCaptured"] != 1.0 || !reflect.DeepEqual(got["lastJob"], map[string]any{"id": job, "depth": 0.0}) {
		t.Errorf("the crawl: %v", got)
	}
	if _, stands := got["finishedAt"].(string); !stands {
		t.Errorf("the crawl: %v", got)
	}
	if closed := l.call(t, 200, "POST", "/api/crawls/"+id+"/failed", windmill, `{"reason":"late"}`); closed["closed"] != false {
		t.Errorf("closing a closed crawl: %v", closed)
	}
	list := l.call(t, 200, "GET", "/api/crawls?orgId=acme&state=succeeded", alice, nil)
	if crawls := list["crawls"].([]any); len(crawls) != 1 || list["nextPageToken"] != nil || crawls[0].(map[string]any)["failures"] != nil {
		t.Errorf("the list: %v", list)
	}
	l.call(t, 404, "GET", "/api/crawls?orgId=acme", bert, nil)
}

// A level that was committed by a ledger that then died is dispatched by the
// next one, once.
func TestALevelLeftBehindIsDispatched(t *testing.T) {
	t.Parallel()
	f := newFlow(t, func(w http.ResponseWriter) { fmt.Fprint(w, uuid.NewString()) })
	l := newLedger(t, "WEBHOOK_URL="+f.URL, "SINK_ORIGIN=http://127.0.0.1:1")
	rows := store.New(l.db.Pool(t, "ledger"))
	crawl := store.Crawl{ID: uuid.New(), OrgID: "acme", Seeds: []string{"http://a/"}, Scope: "same-origin", ScopeKeys: []string{"http://a"}, MaxPages: 30, HostParallelism: 1, StartedAt: time.Now()}
	if err := rows.StartCrawl(t.Context(), crawl, []store.Page{{URL: "http://a/", Host: "a"}}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	l.start(t)
	if order := f.next(t); order["crawl_id"] != crawl.ID.String() {
		t.Errorf("got %v", order)
	}
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		got, err := rows.Crawl(t.Context(), crawl.ID)
		return err == nil && got.LastJobID != nil && *got.LastJobDepth == 0, fmt.Sprint(got, err)
	})
	l.kill(t)
	l.start(t)
	if n := len(f.orders); n != 0 {
		t.Errorf("dispatched %d times more", n)
	}
}

// A webhook that fails closes the crawl, with what it said.
func TestAWebhookThatFails(t *testing.T) {
	t.Parallel()
	answer := make(chan func(http.ResponseWriter), 1)
	f := newFlow(t, func(w http.ResponseWriter) { (<-answer)(w) })
	l := newLedger(t, "WEBHOOK_URL="+f.URL, "WEBHOOK_TIMEOUT=300ms", "SINK_ORIGIN=http://127.0.0.1:1")
	l.start(t)
	l.grant(t, "alice", "acme")
	alice := l.issuer.Token("alice", "acme")
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for want, reply := range map[string]func(http.ResponseWriter){
		"webhook answered 500: " + strings.Repeat("x", 200): func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, strings.Repeat("x", 900))
		},
		"webhook answered 404: no flow":                 func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound); fmt.Fprint(w, "no flow") },
		"webhook answered 200 without a job id: <html>": func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") },
		"webhook did not answer in time":                func(http.ResponseWriter) { <-release },
	} {
		answer <- reply
		id := l.call(t, 202, "POST", "/api/crawls", alice, `{"seeds":["http://a.org/"]}`)["crawlId"].(string)
		testkit.Eventually(t, 10*time.Second, func() (bool, string) {
			got := l.call(t, 200, "GET", "/api/crawls/"+id, alice, nil)
			return got["state"] == "failed" && got["stopReason"] == "failed" && got["error"] == want && got["lastJob"] == nil, fmt.Sprint(got)
		})
	}
}

func TestWithoutAWebhookThereAreNoCrawls(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for i, line := range l.env {
		if strings.HasPrefix(line, prefix+"WEBHOOK_TOKEN_FILE=") || strings.HasPrefix(line, prefix+"SINK_SECRET_FILE=") {
			l.env[i] = "UNSET="
		}
	}
	l.start(t)
	l.grant(t, "alice", "acme")
	alice := l.issuer.Token("alice", "acme")
	l.call(t, 404, "POST", "/api/crawls", alice, `{"seeds":["http://a/"]}`)
	l.call(t, 404, "GET", "/api/crawls/"+uuid.NewString(), alice, nil)
	if me := l.call(t, 200, "GET", "/api/me", alice, nil); me["canSubmit"] != true {
		t.Errorf("me: %v", me)
	}
}

// The registry's methods are for the services that the allow list names.
func TestOnlyNamedServicesCallTheRegistry(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1")
	l.start(t)
	holes := &ledgerv1.ListHolesRequest{PageSize: 10}
	for peer, allowed := range map[string]bool{"reconciler": true, "signer": false, "stranger": false, "feed-archiver": false} {
		_, err := ledgerv1.NewRegistryServiceClient(l.dial(t, peer)).ListHoles(t.Context(), holes)
		if (err == nil) != allowed {
			t.Errorf("%s: %v", peer, err)
		}
	}
}

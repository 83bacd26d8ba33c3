package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/testkit"
)

// A database that is gone, or goes in the middle of an answer, is 503 with a
// time to come back on every route, in words that are ours; and it comes back by
// itself.
func TestWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1")
	database := testkit.NewProxy(t, l.db.URL("ledger"))
	l.env = append(l.env, prefix+"DATABASE_URL="+database.URL)
	l.start(t)
	l.grant(t, "alice", "acme")
	alice, id := l.issuer.Token("alice", "acme"), l.shelve(t, "http://a/", []string{}, nil, time.Now()).String()
	routes := map[string]string{
		"POST /api/crawls": `{"seeds":["http://a/"]}`, "GET /api/crawls": "", "GET /api/crawls/" + id: "",
		"POST /api/crawls/" + id + "/pages":  `{"depth":0,"results":[]}`,
		"POST /api/crawls/" + id + "/failed": `{"reason":"x"}`, "POST /api/crawls/" + id + "/stop": "{}",
		"GET /api/archives": "", "GET /api/archives/" + id: "", "GET /api/archives/" + id + "/proof": "",
		"GET /api/targets": "", "POST /api/targets": `{"targets":[{"url":"http://a/"}]}`, "DELETE /api/targets/1": "", "PATCH /api/targets/1": `{"enabled":false}`,
		"GET /api/archives/" + id + "/shares": "", "POST /api/archives/" + id + "/shares": `{"subject":"bob","seconds":3600}`,
		"DELETE /api/archives/" + id + "/shares/bob": "", "DELETE /api/archives/" + id: "",
	}
	for fault, inject := range map[string]func() (heal func()){
		"gone": func() func() {
			database.Stop()
			return func() {
				if err := database.Start(); err != nil {
					t.Fatal(err)
				}
			}
		},
		// The first bytes of an answer come, and then the connection is cut.
		"cut": func() func() {
			database.Toxic("limit_data", "downstream", `{"bytes":7}`)
			return func() { database.Heal("limit_data") }
		},
	} {
		heal := inject()
		for route, body := range routes {
			method, path, _ := strings.Cut(route, " ")
			resp, said := l.raw(t, method, path, alice, body)
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.HasPrefix(said, `{"error":"`) ||
				strings.Contains(said, "127.0.0.1") || strings.Contains(said, "EOF") {
				t.Errorf("%s, %s: %d %s, Retry-After %q", fault, route, resp.StatusCode, said, resp.Header.Get("Retry-After"))
			}
		}
		heal()
		testkit.Eventually(t, 20*time.Second, func() (bool, string) {
			status, reply, err := l.try("GET", "/api/archives", alice, nil)
			return status == http.StatusOK, fmt.Sprint(status, reply, err)
		})
	}
	for _, table := range []string{"crawls", "capture_targets"} {
		if n := l.count(t, "SELECT count(*) FROM ledger."+table); n != 0 {
			t.Errorf("%d rows of %s", n, table)
		}
	}
}

// A store that is gone is 503 to whoever puts something into it, and no reason
// to refuse a level report: what could not be looked at is left to the
// reconciler, which finds the hole.
func TestWithoutTheStore(t *testing.T) {
	t.Parallel()
	var store *testkit.Proxy
	s := newSunk(t, func(l *ledger) {
		store = testkit.NewProxy(t, l.s3.Endpoint)
		l.env = append(l.env, prefix+"S3_ENDPOINT="+store.URL)
	})
	store.Stop()
	status, reply := s.upload(t, s.crawl, s.token, "a.wacz", strings.NewReader("PK"))
	if status != http.StatusServiceUnavailable || strings.Contains(fmt.Sprint(reply), "127.0.0.1") {
		t.Errorf("an upload: %d %v", status, reply)
	}
	task := uuid.NewString()
	s.call(t, 200, "POST", "/api/crawls/"+s.crawl+"/pages", s.issuer.Token("alice", "acme"), fmt.Sprintf(
		`{"depth":0,"results":[{"url":"http://a.org/","status":"captured","taskId":%q,"manifestLocation":"s3://%s/%s%s.result.json"}]}`, task, s.s3.Bucket, s.prefix, task))
	holes, err := ledgerv1.NewRegistryServiceClient(s.dial(t, "reconciler")).ListHoles(t.Context(), &ledgerv1.ListHolesRequest{PageSize: 10})
	if err != nil || len(holes.GetHoles()) != 1 || holes.GetHoles()[0].GetTaskId() != task {
		t.Errorf("%v, %v", holes, err)
	}
	if err := store.Start(); err != nil {
		t.Fatal(err)
	}
	if status, reply := s.upload(t, s.crawl, s.token, "a.wacz", strings.NewReader("PK")); status != http.StatusOK {
		t.Errorf("when it is back: %d %v", status, reply)
	}
}

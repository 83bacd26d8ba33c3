package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/testkit"
)

// What the contract says of every route, for every route.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1")
	l.start(t)
	alice := l.issuer.Token("alice", "acme")
	id := uuid.NewString()
	for path, methods := range map[string]string{
		"/api/me":                        "GET, HEAD",
		"/api/crawls":                    "GET, HEAD, POST",
		"/api/crawls/" + id:              "GET, HEAD",
		"/api/crawls/" + id + "/pages":   "POST",
		"/api/crawls/" + id + "/failed":  "POST",
		"/api/crawls/" + id + "/stop":    "POST",
		"/api/archives":                  "GET, HEAD",
		"/api/archives/" + id + "/proof": "GET, HEAD",
		"/api/targets":                   "GET, HEAD, POST",
		"/api/targets/1":                 "DELETE, PATCH",
		"/api/sink/" + id + "/x":         "PUT",
	} {
		allowed := strings.Split(methods, ", ")
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"} {
			resp, body := l.raw(t, method, path, "", `{"nonsense":`)
			status, said := 401, `{"error":"unauthenticated"}`
			switch {
			case !slices.Contains(allowed, method):
				status, said = 405, `{"error":"method not allowed"}`
			case strings.HasPrefix(path, "/api/sink/"):
				said = `{"error":"invalid or expired sink token"}`
			}
			if method == "HEAD" {
				said = ""
			}
			if resp.StatusCode != status || strings.TrimSpace(body) != said {
				t.Errorf("%s %s: %d %s, want %d %s", method, path, resp.StatusCode, body, status, said)
			}
			if allow := resp.Header.Get("Allow"); (status == 405) != (allow == methods) {
				t.Errorf("%s %s: Allow %q, want %q", method, path, allow, methods)
			}
			if resp.Header.Get("X-Request-ID") == "" || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s: headers %v", method, path, resp.Header)
			}
		}
	}
	for _, path := range []string{"/api/archive", "/api/crawls/", "/api/crawls/" + id + "/", "/api/crawls/" + id + "/nothing", "/api/targets/1/x", "/api//me", "/", "/api/v2/archive"} {
		if resp, body := l.raw(t, "POST", path, alice, `{}`); resp.StatusCode != http.StatusNotFound || body != `{"error":"not found"}` {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	// A malformed id is told before anything is looked up; an unknown one is not there.
	for _, route := range []string{"GET /api/crawls/%s", "POST /api/crawls/%s/pages", "POST /api/crawls/%s/failed", "POST /api/crawls/%s/stop"} {
		method, path, _ := strings.Cut(route, " ")
		var body any
		if method == "POST" {
			body = map[bool]string{true: `{"depth":0,"results":[]}`, false: `{}`}[strings.HasSuffix(path, "pages")]
		}
		if said := l.call(t, 400, method, fmt.Sprintf(path, "x"), alice, body)["error"].(string); !strings.HasPrefix(said, "crawlId: ") {
			t.Errorf("%s: %s", route, said)
		}
		if got := l.call(t, 404, method, fmt.Sprintf(path, id), alice, body); !reflect.DeepEqual(got, map[string]any{"error": "not found"}) {
			t.Errorf("%s: %v", route, got)
		}
	}
}

// raw does one request and returns what came, as it came.
func (l *ledger) raw(t *testing.T, method, path, token, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+l.http+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(content)
}

// A body is exactly one JSON object with known keys.
func TestBodiesOverTheGateway(t *testing.T) {
	t.Parallel()
	f := newFlow(t, func(w http.ResponseWriter) { fmt.Fprint(w, uuid.NewString()) })
	l := newLedger(t, "WEBHOOK_URL="+f.URL, "SINK_ORIGIN=http://127.0.0.1:1")
	l.start(t)
	l.grant(t, "alice", "acme")
	alice := l.issuer.Token("alice", "acme")
	id := l.call(t, 202, "POST", "/api/crawls", alice, `{"seeds":["http://a.org/"],"scope":null,"orgId":null,"fromTargets":null}`)["crawlId"].(string)
	failed := "/api/crawls/" + id + "/failed"
	for _, body := range []string{
		"", "null", "[]", `"{}"`, "7", "{}{}", "{} x", "{", `{"reason":1}`, `{"reason":""}`, `{"reason":"a","reason":"b"}`, `{"Reason":"a"}`, "{\"reason\":\"\xff\"}",
		`{"crawlId":"` + id + `"}`, `{"reason":"a\u0000b"}`,
	} {
		if said, _ := l.call(t, 400, "POST", failed, alice, body)["error"].(string); said == "" {
			t.Errorf("%s: no error", body)
		}
	}
	l.call(t, 413, "POST", failed, alice, `{"reason":"`+strings.Repeat("x", 32<<20)+`"}`)
	for _, body := range []string{"null", `{"x":1}`, "[]"} {
		l.call(t, 400, "POST", "/api/crawls/"+id+"/stop", alice, body)
	}
	// T02: numbers.
	for body, field := range map[string]string{
		// T05: a level that is not named must not pass for the first.
		`{}`: "depth", `{"depth":null,"results":[]}`: "depth",
		`{"depth":1.5,"results":[]}`: "depth", `{"depth":-1,"results":[]}`: "depth", `{"depth":11,"results":[]}`: "depth", `{"depth":"x","results":[]}`: "depth",
		`{"depth":0,"results":[{"url":"http://a/","status":"Captured"}]}`:                                                                       "results[0].status",
		`{"depth":0,"results":[{"url":"http://a/","status":"failed"},{"url":"http://b/"}]}`:                                                     "results[1].status",
		`{"depth":0,"results":[{"url":"http://a/","status":"failed","taskId":"x","manifestError":"e"}]}`:                                        "results[0].taskId",
		`{"depth":0,"results":[{"url":"http://a/","status":"failed","taskId":"` + id + `"}]}`:                                                   "results[0]",
		`{"depth":0,"results":[{"url":"http://a/","status":"failed","manifestError":"e"}]}`:                                                     "results[0]",
		`{"depth":0,"results":[{"url":"http://a/","status":"failed","finishedAt":"2026-11-30"}]}`:                                               "results[0].finishedAt",
		`{"depth":0,"results":[{"url":"http://a/","status":"failed","taskId":"` + id + `","manifestError":"e","manifestLocation":"s3://b/k"}]}`: "results[0]",
	} {
		if said := l.call(t, 400, "POST", "/api/crawls/"+id+"/pages", alice, body)["error"].(string); !strings.HasPrefix(said, field+": ") {
			t.Errorf("%s: %s", body, said)
		}
	}
	if got := l.call(t, 200, "GET", "/api/crawls/"+id, alice, nil)["state"]; got != "running" {
		t.Errorf("refused bodies did something: the crawl is %v", got)
	}
	// T11: every 2xx is an object, also where there is nothing to say.
	if got := l.call(t, 200, "POST", "/api/crawls/"+id+"/failed?unknown=1", alice, `{"reason":null}`); !reflect.DeepEqual(got, map[string]any{"closed": true}) {
		t.Errorf("failed: %v", got)
	}
	if got := l.call(t, 200, "POST", failed, alice, `{"reason":"again"}`); !reflect.DeepEqual(got, map[string]any{"closed": false}) {
		t.Errorf("failed again: %v", got)
	}
}

// The crawl as a client sees it, from its start to its end.
func TestTheShapeOfACrawl(t *testing.T) {
	t.Parallel()
	f := newFlow(t, func(w http.ResponseWriter) { fmt.Fprintf(w, "%q", "0197e0c6-0000-7000-8000-000000000001") })
	l := newLedger(t, "WEBHOOK_URL="+f.URL, "SINK_ORIGIN=http://127.0.0.1:1")
	l.start(t)
	l.grant(t, "alice", "acme")
	l.grant(t, "windmill", "acme")
	alice, windmill := l.issuer.Token("alice", "acme"), l.issuer.Token("windmill")
	seeds := []string{"HTTP://A.org:80", "http://a.org/#x", "http://a.org/%7Ex?b=2&a=1", "http://b.org/1", "http://b.org/2", "http://b.org/3", "http://b.org/4", "http://b.org/5"}
	body, err := json.Marshal(map[string]any{"seeds": seeds, "maxDepth": "0"})
	if err != nil {
		t.Fatal(err)
	}
	id := l.call(t, 202, "POST", "/api/crawls", alice, string(body))["crawlId"].(string)
	f.next(t)
	kept := []any{"http://a.org/", "http://a.org/%7Ex?b=2&a=1", "http://b.org/1", "http://b.org/2", "http://b.org/3", "http://b.org/4", "http://b.org/5"}
	want := map[string]any{
		"crawlId": id, "seeds": kept, "scope": "same-origin", "state": "running", "stopReason": nil, "maxDepth": 0.0, "maxPages": 30.0, "perHostDelayMs": 2000.0,
		"hostParallelism": 4.0, "finishedAt": nil, "pagesDiscovered": 7.0, "pagesCaptured": 0.0, "error": nil, "failures": []any{},
		"lastJob": map[string]any{"id": "0197e0c6-0000-7000-8000-000000000001", "depth": 0.0},
	}
	var started string
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		got := l.call(t, 200, "GET", "/api/crawls/"+id, alice, nil)
		started, _ = got["startedAt"].(string)
		delete(got, "startedAt")
		return reflect.DeepEqual(got, want), fmt.Sprint(got)
	})
	if at, err := time.Parse("2006-01-02T15:04:05.999999Z", started); err != nil || time.Since(at) > time.Minute {
		t.Errorf("started at %q, %v", started, err)
	}
	var results []string
	for i := range 5 {
		results = append(results, fmt.Sprintf(`{"url":"http://b.org/%d","status":"failed","skipReason":"reason %d"}`, i+1, i+1))
	}
	results = append(results, `{"url":"http://a.org/","status":"failed","skipReason":"reason 6","finishedAt":"2026-11-30T13:00:00.9999999+01:00"}`, `{"url":"http://a.org/%7Ex?b=2&a=1","status":"skipped","skipReason":"robots"}`)
	reply := l.call(t, 200, "POST", "/api/crawls/"+id+"/pages", windmill, `{"depth":0,"results":[`+strings.Join(results, ",")+`]}`)
	if !reflect.DeepEqual(reply, map[string]any{"next": []any{}, "stopReason": "max_depth"}) {
		t.Errorf("reply %v", reply)
	}
	got := l.call(t, 200, "GET", "/api/crawls/"+id, windmill, nil)
	failures := got["failures"].([]any)
	if len(failures) != 5 || !reflect.DeepEqual(slices.Sorted(maps.Keys(failures[0].(map[string]any))), []string{"depth", "reason", "url"}) {
		t.Errorf("failures %v", failures)
	}
	if got["state"] != "succeeded" || got["stopReason"] != "max_depth" || got["finishedAt"] == nil {
		t.Errorf("the crawl %v", got)
	}
	list := l.call(t, 200, "GET", "/api/crawls", alice, nil)
	summary := list["crawls"].([]any)[0].(map[string]any)
	delete(got, "failures")
	if !reflect.DeepEqual(summary, got) || list["nextPageToken"] != nil || len(list) != 2 {
		t.Errorf("listed as %v, want %v", list, got)
	}

	// Stopped: no further level, state failed.
	second := l.call(t, 202, "POST", "/api/crawls", alice, `{"seeds":["http://a.org/"]}`)["crawlId"].(string)
	f.next(t)
	for _, stopped := range []bool{true, false} {
		if got := l.call(t, 200, "POST", "/api/crawls/"+second+"/stop", alice, nil); !reflect.DeepEqual(got, map[string]any{"stopped": stopped}) {
			t.Errorf("stop: %v, want %t", got, stopped)
		}
	}
	if got := l.call(t, 200, "GET", "/api/crawls/"+second, alice, nil); got["state"] != "failed" || got["stopReason"] != "stopped" {
		t.Errorf("the stopped crawl %v", got)
	}
	if reply := l.call(t, 200, "POST", "/api/crawls/"+second+"/pages", windmill, `{"depth":0,"results":[{"url":"http://a.org/","status":"captured"}]}`); !reflect.DeepEqual(reply, map[string]any{"next": []any{}, "stopReason": "stopped"}) {
		t.Errorf("a report to a stopped crawl: %v", reply)
	}
	if crawls := l.call(t, 200, "GET", "/api/crawls?orgId=acme", alice, nil)["crawls"].([]any); len(crawls) != 2 || crawls[0].(map[string]any)["crawlId"] != second {
		t.Errorf("newest first: %v", crawls)
	}
	if crawls := l.call(t, 200, "GET", "/api/crawls?state=running", alice, nil)["crawls"].([]any); len(crawls) != 0 {
		t.Errorf("running: %v", crawls)
	}
	l.call(t, 400, "GET", "/api/crawls?state=Running", alice, nil)
}

// What the engine does not answer is 503 with a time to come back, and nothing
// is half-done.
func TestWithoutTheEngine(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1", "OPENFGA_API_URL=http://127.0.0.1:1")
	l.start(t)
	alice := l.issuer.Token("alice", "acme")
	l.shelve(t, "http://a/", []string{}, nil, time.Now())
	for route, body := range map[string]string{
		"GET /api/me": "", "POST /api/crawls": `{"seeds":["http://a/"]}`, "GET /api/crawls": "", "GET /api/crawls/" + uuid.NewString(): "",
		"GET /api/archives": "", "GET /api/archives/" + uuid.NewString(): "", "GET /api/archives/" + uuid.NewString() + "/proof": "",
		"GET /api/targets": "", "POST /api/targets": `{"targets":[{"url":"http://a/"}]}`, "DELETE /api/targets/1": "",
	} {
		method, path, _ := strings.Cut(route, " ")
		resp, said := l.raw(t, method, path, alice, body)
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.HasPrefix(said, `{"error":"`) || strings.Contains(said, "127.0.0.1") {
			t.Errorf("%s: %d %s, Retry-After %q", route, resp.StatusCode, said, resp.Header.Get("Retry-After"))
		}
	}
	for _, table := range []string{"crawls", "capture_targets"} {
		if n := l.count(t, "SELECT count(*) FROM ledger."+table); n != 0 {
			t.Errorf("%d rows of %s", n, table)
		}
	}
}

// The three ways to be somebody.
func TestIdentityModes(t *testing.T) {
	t.Parallel()
	without := func(l *ledger, name string) {
		for i, line := range l.env {
			if strings.HasPrefix(line, prefix+name+"=") {
				l.env[i] = "UNSET="
			}
		}
	}
	ask := func(l *ledger, header http.Header) (int, string) {
		conn, err := net.Dial("tcp", l.http)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprint(conn, "GET /api/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\n")
		_ = header.Write(conn)
		fmt.Fprint(conn, "\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	dev := http.Header{"X-Muniment-Subject": {"alice"}, "X-Muniment-Organizations": {"acme, be ta,*,beta"}}
	const nobody = `{"error":"unauthenticated"}`
	t.Run("deny is the default", func(t *testing.T) {
		t.Parallel()
		l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1")
		without(l, "ISSUER_URL")
		l.start(t)
		for _, header := range []http.Header{dev, {"Authorization": {"Bearer " + l.issuer.Token("alice", "acme")}}} {
			if status, body := ask(l, header); status != 401 || body != nobody {
				t.Errorf("%d %s", status, body)
			}
		}
	})
	t.Run("a token wins over the header", func(t *testing.T) {
		t.Parallel()
		l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1", "DEV_HEADERS=true")
		l.start(t)
		if status, body := ask(l, dev); status != 401 || body != nobody {
			t.Errorf("%d %s", status, body)
		}
		with := dev.Clone()
		with.Set("Authorization", "Bearer "+l.issuer.Token("carol", "acme"))
		if status, body := ask(l, with); status != 200 || !strings.HasPrefix(body, `{"subject":"carol"`) {
			t.Errorf("%d %s", status, body)
		}
		// T25: what cannot be an engine user is nobody.
		for _, subject := range []string{"a:b", "a b", "a#b", "*", strings.Repeat("x", 600)} {
			if status, body := ask(l, http.Header{"Authorization": {"Bearer " + l.issuer.Token(subject, "acme")}}); status != 401 || body != nobody {
				t.Errorf("%q: %d %s", subject, status, body)
			}
		}
	})
	t.Run("the header where it is switched on", func(t *testing.T) {
		t.Parallel()
		l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1", "DEV_HEADERS=true")
		without(l, "ISSUER_URL")
		l.start(t)
		if status, body := ask(l, dev); status != 200 || body != `{"subject":"alice","organizations":["acme","beta"],"canSubmit":false,"submitTo":[]}` {
			t.Errorf("%d %s", status, body)
		}
	})
}

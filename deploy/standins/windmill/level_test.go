package windmill_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muniment/muniment/deploy/standins/browserhive"
	"github.com/muniment/muniment/deploy/standins/site"
	"github.com/muniment/muniment/deploy/standins/windmill"
	"github.com/muniment/muniment/pkg/testkit"
)

const (
	crawlID      = "0a71640c-25b6-4352-81c1-7f56679c6d88"
	webhookToken = "webhook-token"
	gatewayToken = "gateway-token"
	webhookPath  = "/api/w/muniment/jobs/run/f/f/muniment/crawl_level"
	delay        = 300 * time.Millisecond
)

// repository is the repository's root, above this file.
func repository() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// loaded is the real workspace folder, built once; built scripts are shared with
// the local stack.
var loaded = sync.OnceValues(func() (*windmill.Workspace, error) {
	return windmill.Load(context.Background(), filepath.Join(repository(), "deploy", "windmill"), filepath.Join(repository(), ".local", "windmill"), "go")
})

// ledger is a small gateway: the level report, the failure call and the sink.
type ledger struct {
	server *httptest.Server
	// down is how many reports are answered 503 first.
	down atomic.Int32

	mu  sync.Mutex
	got received
}

type received struct {
	reports  []report
	failures []string
	files    map[string]int
}

// received is what has come in so far.
func (l *ledger) received() received {
	l.mu.Lock()
	defer l.mu.Unlock()
	return received{slices.Clone(l.got.reports), slices.Clone(l.got.failures), maps.Clone(l.got.files)}
}

type report struct {
	Depth   int `json:"depth"`
	Results []struct {
		URL              string    `json:"url"`
		Status           string    `json:"status"`
		SkipReason       string    `json:"skipReason"`
		TaskID           string    `json:"taskId"`
		CorrelationID    string    `json:"correlationId"`
		SubmittedAt      time.Time `json:"submittedAt"`
		FinishedAt       time.Time `json:"finishedAt"`
		LinksLocation    string    `json:"linksLocation"`
		ManifestLocation string    `json:"manifestLocation"`
		ManifestError    string    `json:"manifestError"`
	} `json:"results"`
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{got: received{files: map[string]int{}}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/crawls/"+crawlID+"/pages", func(w http.ResponseWriter, r *http.Request) {
		if l.down.Add(-1) >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var got report
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil || r.Header.Get("Authorization") != "Bearer "+gatewayToken {
			t.Errorf("a report that the ledger refuses: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.got.reports = append(l.got.reports, got)
		_, _ = io.WriteString(w, `{"next":[],"stopReason":"completed"}`)
	})
	mux.HandleFunc("POST /api/crawls/"+crawlID+"/failed", func(w http.ResponseWriter, r *http.Request) {
		var got struct{ Reason string }
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Errorf("a failure call: %v", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.got.failures = append(l.got.failures, got.Reason)
		_, _ = io.WriteString(w, `{"closed":true}`)
	})
	mux.HandleFunc("PUT /api/sink/"+crawlID+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil || n == 0 || r.Header.Get("Authorization") != "Bearer sink-token" {
			t.Errorf("an upload of %d bytes: %v", n, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.got.files["s3://bucket/org/acme/2026-11/"+r.PathValue("name")]++
		_ = json.NewEncoder(w).Encode(map[string]string{"location": "s3://bucket/org/acme/2026-11/" + r.PathValue("name")})
	})
	l.server = httptest.NewServer(mux)
	t.Cleanup(l.server.Close)
	return l
}

func newBrowserHive(t *testing.T) string {
	t.Helper()
	standIn, err := browserhive.New(browserhive.Settings{}, nil, "", slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(standIn)
	t.Cleanup(func() { server.Close(); standIn.Close() })
	return server.URL
}

func newSite(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(site.Handler())
	t.Cleanup(server.Close)
	return server
}

// newWindmill runs the real workspace folder against l and the browsers.
func newWindmill(t *testing.T, l *ledger, browsers ...string) *httptest.Server {
	t.Helper()
	flows, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	endpoints, err := json.Marshal(browsers)
	if err != nil {
		t.Fatal(err)
	}
	variables, err := json.Marshal(windmill.VariableMap{
		"f/muniment/gateway_url":           l.server.URL,
		"f/muniment/gateway_token":         gatewayToken,
		"f/muniment/browserhive_endpoints": string(endpoints),
		"f/muniment/browserhive_ca":        "",
		"f/muniment/respect_robots":        "true",
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "variables.json")
	if err := os.WriteFile(file, variables, 0o600); err != nil {
		t.Fatal(err)
	}
	standIn := windmill.New("muniment", webhookToken, flows, windmill.VariableFile(file), slog.New(slog.NewTextHandler(t.Output(), nil)))
	server := httptest.NewServer(standIn)
	t.Cleanup(func() { server.Close(); standIn.Close() })
	return server
}

// level is what the ledger's webhook call sends.
func level(l *ledger, pages ...string) map[string]any {
	frontier := []map[string]any{}
	for _, page := range pages {
		host, _, _ := strings.Cut(strings.TrimPrefix(page, "http://"), "/")
		frontier = append(frontier, map[string]any{"url": page, "host": host, "lastFinishedAt": nil})
	}
	return map[string]any{
		"crawl_id": crawlID, "depth": 1, "frontier": frontier,
		"per_host_delay_ms": delay.Milliseconds(), "host_parallelism": 4,
		"capture_formats": map[string]bool{"png": false, "webp": false, "html": false, "links": true, "mhtml": false, "wacz": true},
		"signing":         false, "scripts": []any{},
		"artifact_sink": map[string]string{"url": l.server.URL + "/api/sink/" + crawlID, "token": "sink-token"},
	}
}

func post(t *testing.T, server *httptest.Server, path, token string, body any) (int, string) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return do(t, req)
}

func do(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

type job struct {
	Completed, Success bool
	Result             any
}

// runLevel starts a job through the webhook and waits for its end.
func runLevel(t *testing.T, server *httptest.Server, input any) (id string, ended job) {
	t.Helper()
	status, id := post(t, server, webhookPath, webhookToken, input)
	if status != http.StatusCreated || !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(id) {
		t.Fatalf("the webhook answered %d %q", status, id)
	}
	testkit.Eventually(t, time.Minute, func() (bool, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/w/muniment/jobs_u/completed/get_result_maybe/"+id, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+webhookToken)
		status, body := do(t, req)
		if err := json.Unmarshal([]byte(body), &ended); err != nil || status != http.StatusOK {
			t.Fatalf("the job's result: %d %s", status, body)
		}
		return ended.Completed, body
	})
	return id, ended
}

func TestALevelOfTwoHosts(t *testing.T) {
	t.Parallel()
	one, two := newSite(t), newSite(t)
	l := newLedger(t)
	server := newWindmill(t, l, newBrowserHive(t), newBrowserHive(t))
	_, ended := runLevel(t, server, level(l, one.URL+"/", two.URL+"/", one.URL+"/docs/one.html", two.URL+"/moved", one.URL+"/docs/hidden.html", two.URL+"/missing.html"))
	ledger := l.received()
	if !ended.Success || len(ledger.reports) != 1 || len(ledger.failures) != 0 {
		t.Fatalf("job %+v, the ledger got %+v", ended, ledger)
	}
	got := ledger.reports[0]
	if got.Depth != 1 || len(got.Results) != 6 {
		t.Fatalf("report %+v", got)
	}
	type span struct{ from, to time.Time }
	spans := map[string]*span{}
	previous := map[string]time.Time{}
	for _, r := range got.Results {
		want := map[string]string{"/docs/hidden.html": "skipped", "/missing.html": "failed"}[strings.TrimPrefix(strings.TrimPrefix(r.URL, one.URL), two.URL)]
		if want == "" {
			want = "captured"
		}
		if r.Status != want {
			t.Errorf("%s is %s (%s), want %s", r.URL, r.Status, r.SkipReason, want)
		}
		if want == "skipped" {
			continue
		}
		if r.TaskID == "" || r.CorrelationID != crawlID || ledger.files[r.ManifestLocation] != 1 {
			t.Errorf("result %+v; the sink has %v", r, ledger.files)
		}
		host := r.URL[:len(one.URL)]
		if before, seen := previous[host]; seen && r.SubmittedAt.Sub(before) < delay {
			t.Errorf("%s came %s after the page before it, want %s", r.URL, r.SubmittedAt.Sub(before), delay)
		}
		previous[host] = r.FinishedAt
		if spans[host] == nil {
			spans[host] = &span{from: r.SubmittedAt}
		}
		spans[host].to = r.FinishedAt
	}
	a, b := spans[one.URL], spans[two.URL]
	if a.from.After(b.to) || b.from.After(a.to) {
		t.Errorf("the hosts were crawled one after the other: %+v, %+v", a, b)
	}
}

func TestABusyBrowserIsWaitedFor(t *testing.T) {
	t.Parallel()
	one, two := newSite(t), newSite(t)
	l := newLedger(t)
	_, ended := runLevel(t, newWindmill(t, l, newBrowserHive(t)), level(l, one.URL+"/", two.URL+"/", one.URL+"/docs/one.html", two.URL+"/docs/one.html"))
	got := l.received()
	if !ended.Success || len(got.reports) != 1 || len(got.reports[0].Results) != 4 {
		t.Fatalf("job %+v, the ledger got %+v", ended, got)
	}
	for _, r := range got.reports[0].Results {
		if r.Status != "captured" {
			t.Errorf("%s is %s: %s", r.URL, r.Status, r.SkipReason)
		}
	}
}

func TestDeadBrowsers(t *testing.T) {
	t.Parallel()
	page := newSite(t)
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()

	// One of two is gone: nobody notices.
	l := newLedger(t)
	if _, ended := runLevel(t, newWindmill(t, l, dead.URL, newBrowserHive(t)), level(l, page.URL+"/")); !ended.Success || len(l.received().failures) != 0 {
		t.Errorf("one of two gone: %+v, the ledger got %+v", ended, l.received())
	}

	// All are gone: the flow dies half-way and the crawl is closed.
	l = newLedger(t)
	id, ended := runLevel(t, newWindmill(t, l, dead.URL), level(l, page.URL+"/"))
	got := l.received()
	if ended.Success || len(got.reports) != 0 || len(got.failures) != 1 || !strings.Contains(got.failures[0], id) {
		t.Errorf("all gone: %+v of job %s, the ledger got %+v", ended, id, got)
	}
}

func TestAFlowThatDiesAtItsFirstStep(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	_, ended := runLevel(t, newWindmill(t, l, "http://127.0.0.1:1"), level(l, "ftp://example.org/"))
	message, err := json.Marshal(ended.Result)
	if err != nil || ended.Success || len(l.received().failures) != 1 || !strings.Contains(string(message), "step plan_level") || !strings.Contains(string(message), "ftp://example.org/") {
		t.Errorf("%+v %s, the ledger got %+v", ended, message, l.received())
	}
}

func TestAReportIsRetried(t *testing.T) {
	t.Parallel()
	page := newSite(t)
	l := newLedger(t)
	l.down.Store(1)
	_, ended := runLevel(t, newWindmill(t, l, newBrowserHive(t)), level(l, page.URL+"/"))
	if got := l.received(); !ended.Success || len(got.reports) != 1 || len(got.failures) != 0 {
		t.Errorf("%+v, the ledger got %+v", ended, got)
	}
}

func TestAnEmptyLevelIsReported(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	input := level(l)
	delete(input, "artifact_sink") // a key without a value is left out
	_, ended := runLevel(t, newWindmill(t, l, "http://127.0.0.1:1"), input)
	if got := l.received(); !ended.Success || len(got.reports) != 1 || got.reports[0].Results == nil {
		t.Errorf("%+v, the ledger got %+v", ended, got)
	}
}

func TestTheWebhookRefuses(t *testing.T) {
	t.Parallel()
	server := newWindmill(t, newLedger(t), "http://127.0.0.1:1")
	for name, tc := range map[string]struct {
		path, token string
		body        any
		want        int
	}{
		"another token":     {webhookPath, "guess", map[string]any{}, http.StatusUnauthorized},
		"no token":          {webhookPath, "", map[string]any{}, http.StatusUnauthorized},
		"another workspace": {"/api/w/other/jobs/run/f/f/muniment/crawl_level", webhookToken, map[string]any{}, http.StatusNotFound},
		"no such flow":      {"/api/w/muniment/jobs/run/f/f/muniment/nothing", webhookToken, map[string]any{}, http.StatusNotFound},
		"no object":         {webhookPath, webhookToken, []int{1}, http.StatusBadRequest},
	} {
		if status, body := post(t, server, tc.path, tc.token, tc.body); status != tc.want {
			t.Errorf("%s: %d %s, want %d", name, status, body, tc.want)
		}
	}
}

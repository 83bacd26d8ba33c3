package inner

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const task = "0a71640c-25b6-4352-81c1-7f56679c6d88"

// browser answers with one scripted reply after another.
type browser struct {
	server  *httptest.Server
	mu      sync.Mutex
	calls   []map[string]any
	replies []func(http.ResponseWriter, *http.Request)
}

func newBrowser(t *testing.T, replies ...func(http.ResponseWriter, *http.Request)) *browser {
	t.Helper()
	b := &browser{replies: replies}
	b.server = httptest.NewServer(b)
	t.Cleanup(b.server.Close)
	return b
}

func (b *browser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Method+r.URL.Path != "POST/captures" {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	b.mu.Lock()
	b.calls = append(b.calls, body)
	reply := b.replies[min(len(b.calls), len(b.replies))-1]
	b.mu.Unlock()
	reply(w, r)
}

func (b *browser) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls)
}

func answers(status int, errorType, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		if errorType != "" {
			w.Header().Set("X-Amzn-Errortype", errorType)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func report(status, errorType, message string) func(http.ResponseWriter, *http.Request) {
	return answers(200, "", fmt.Sprintf(
		`{"taskId":%q,"report":{"status":%q,"artifacts":{"links":"s3://b/l.links.json"},"errorDetails":{"type":%q,"message":%q}},"manifest":{"location":"s3://b/m.result.json"}}`,
		task, status, errorType, message))
}

var (
	success = report("success", "", "")
	busy    = answers(429, "Busy", `{"message":"busy"}`)
)

// clock is a time that passes only while somebody sleeps.
type clock struct {
	mu     sync.Mutex
	at     time.Time
	sleeps []time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	c.sleeps = append(c.sleeps, d)
}

func newCrawler(t *testing.T, endpoints ...string) (crawler, *clock) {
	t.Helper()
	client, err := newClient("")
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{at: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	return crawler{
		endpoints: endpoints, client: client, request: captureRequest{Labels: []string{}, CorrelationID: "crawl"},
		delay: 2 * time.Second, answer: 5 * time.Second, busy: time.Minute,
		now: c.now, sleep: c.sleep, pause: func() time.Duration { return time.Second },
	}, c
}

func TestMainCapturesAHost(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, success)
	notBefore := time.Now().Add(120 * time.Millisecond)
	results, err := main("crawl-1", []string{"http://h/a", "http://h/b"}, 150, notBefore.UTC().Format(time.RFC3339Nano),
		formats{Links: true, WACZ: true}, false, nil, sink{URL: "http://ledger/api/sink/crawl-1", Token: "secret"},
		fmt.Sprintf("[%q]", b.server.URL+"/"), "", 145, 60)
	if err != nil || len(results) != 2 {
		t.Fatalf("results %+v, %v", results, err)
	}
	first, second := results[0], results[1]
	if first.SubmittedAt.Before(notBefore.Truncate(time.Microsecond)) {
		t.Errorf("started %s before it might", notBefore.Sub(first.SubmittedAt))
	}
	if gap := second.SubmittedAt.Sub(first.FinishedAt); gap < 150*time.Millisecond {
		t.Errorf("a gap of %s", gap)
	}
	if first.Status != "captured" || first.TaskID != task || first.CorrelationID != "crawl-1" || first.SkipReason != "" ||
		first.ManifestLocation != "s3://b/m.result.json" || first.LinksLocation != "s3://b/l.links.json" || first.ManifestError != "" {
		t.Errorf("result %+v", first)
	}
	want := `{"artifactSink":{"token":"secret","url":"http://ledger/api/sink/crawl-1"},"captureFormats":{"html":false,"links":true,"mhtml":false,"png":false,"wacz":true,"webp":false},"correlationId":"crawl-1","labels":[],"signing":false,"url":"http://h/a"}`
	if got, err := json.Marshal(b.calls[0]); err != nil || string(got) != want {
		t.Errorf("sent %s\nwant %s, %v", got, want, err)
	}
}

func TestMainRefusesBadSettings(t *testing.T) {
	t.Parallel()
	run := func(notBefore, endpoints, ca string, answer, busySeconds int64) error {
		_, err := main("c", nil, 0, notBefore, formats{}, false, nil, sink{}, endpoints, ca, answer, busySeconds)
		return err
	}
	const at, one = "2026-11-30T12:00:00Z", `["http://127.0.0.1:1"]`
	for name, tc := range map[string]struct {
		err  error
		says string
	}{
		"no list":     {run(at, "http://127.0.0.1:1", "", 1, 1), "browserhive_endpoints"},
		"empty list":  {run(at, "[]", "", 1, 1), "browserhive_endpoints"},
		"not a URL":   {run(at, `["host:80"]`, "", 1, 1), "host:80"},
		"bad CA":      {run(at, one, "no PEM", 1, 1), "browserhive_ca"},
		"bad time":    {run("soon", one, "", 1, 1), "notBefore"},
		"no limit":    {run(at, one, "", 0, 1), "answerSeconds"},
		"no patience": {run(at, one, "", 1, 0), "busySeconds"},
	} {
		if tc.err == nil || !strings.Contains(tc.err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q in it", name, tc.err, tc.says)
		}
	}
	if err := run(at, one, "", 1, 1); err != nil {
		t.Errorf("no page: %v", err)
	}
}

// TestReplies is the table of browserhive.md, line by line.
func TestReplies(t *testing.T) {
	t.Parallel()
	const noManifest = `{"taskId":"` + task + `","report":{"status":"success","artifacts":{}},"manifest":{"error":"the bucket is gone"}}`
	for name, tc := range map[string]struct {
		reply func(http.ResponseWriter, *http.Request)
		want  result
	}{
		"success":           {success, result{Status: "captured", TaskID: task, ManifestLocation: "s3://b/m.result.json"}},
		"http error":        {report("http_error", "http", "HTTP 404: Not Found"), result{Status: "failed", TaskID: task, ManifestLocation: "s3://b/m.result.json", SkipReason: "HTTP 404: Not Found"}},
		"no message":        {report("failed", "signing", ""), result{Status: "failed", TaskID: task, ManifestLocation: "s3://b/m.result.json", SkipReason: "BrowserHive reports failed"}},
		"manifest not kept": {answers(200, "", noManifest), result{Status: "captured", TaskID: task, ManifestError: "the bucket is gone"}},
		"manifest unsaid":   {answers(200, "", `{"taskId":"`+task+`","report":{"status":"success"},"manifest":{}}`), result{Status: "captured", TaskID: task, ManifestError: "BrowserHive named no manifest"}},
		"refused":           {answers(400, "ValidationException", `{"message":"url must be absolute","fieldList":[]}`), result{Status: "failed", SkipReason: "BrowserHive refused the request: url must be absolute"}},
		"refused, prefixed": {answers(400, "ns#ValidationException:http://x", `{"message":"no"}`), result{Status: "failed", SkipReason: "BrowserHive refused the request: no"}},
		"server fault":      {answers(500, "", ""), result{Status: "failed", SkipReason: "BrowserHive answered 500"}},
		"429, not busy":     {answers(429, "ThrottlingException", ""), result{Status: "failed", SkipReason: "BrowserHive answered 429"}},
		"a redirect":        {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, result{Status: "failed", SkipReason: "BrowserHive answered 302"}},
		"HTML":              {answers(200, "", "<html>"), result{Status: "failed", SkipReason: "BrowserHive's answer cannot be read"}},
		"task id no UUID":   {answers(200, "", `{"taskId":"7","report":{"status":"success"},"manifest":{"location":"s3://b/m"}}`), result{Status: "failed", SkipReason: "BrowserHive's answer cannot be read"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBrowser(t, tc.reply)
			c, _ := newCrawler(t, b.server.URL)
			results, err := c.crawl([]string{"http://h/"}, time.Time{})
			if err != nil || len(results) != 1 {
				t.Fatalf("results %+v, %v", results, err)
			}
			got := results[0]
			if got.URL != "http://h/" || got.SubmittedAt.IsZero() || got.FinishedAt.IsZero() {
				t.Errorf("result %+v", got)
			}
			if got.Status != tc.want.Status || got.TaskID != tc.want.TaskID || got.SkipReason != tc.want.SkipReason ||
				got.ManifestLocation != tc.want.ManifestLocation || got.ManifestError != tc.want.ManifestError {
				t.Errorf("got %+v\nwant %+v", got, tc.want)
			}
			if b.count() != 1 {
				t.Errorf("called %d times", b.count())
			}
		})
	}
}

func TestRetriedOnceAfterTheGap(t *testing.T) {
	t.Parallel()
	for errorType, calls := range map[string]int{
		"connection": 2, "timeout": 2, "internal": 2,
		"artifact_sink": 1, "signing": 1, "http": 1, "cancelled": 1,
	} {
		b := newBrowser(t, report("failed", errorType, "no"))
		c, clock := newCrawler(t, b.server.URL)
		results, err := c.crawl([]string{"http://h/"}, time.Time{})
		if err != nil || len(results) != 1 || results[0].Status != "failed" {
			t.Fatalf("%s: %+v, %v", errorType, results, err)
		}
		if b.count() != calls {
			t.Errorf("%s: captured %d times, want %d", errorType, b.count(), calls)
		}
		if calls == 2 && (len(clock.sleeps) != 1 || clock.sleeps[0] != c.delay) {
			t.Errorf("%s: slept %v before the retry", errorType, clock.sleeps)
		}
	}
	b := newBrowser(t, report("timeout", "timeout", "slow"), success)
	c, _ := newCrawler(t, b.server.URL)
	if results, err := c.crawl([]string{"http://h/"}, time.Time{}); err != nil || results[0].Status != "captured" {
		t.Errorf("a retry that succeeds: %+v, %v", results, err)
	}
}

func TestBusyBrowsersAreAskedInRounds(t *testing.T) {
	t.Parallel()
	one := newBrowser(t, busy)
	two := newBrowser(t, busy, busy, success)
	c, clock := newCrawler(t, one.server.URL, two.server.URL)
	results, err := c.crawl([]string{"http://h/"}, time.Time{})
	if err != nil || results[0].Status != "captured" {
		t.Fatalf("results %+v, %v", results, err)
	}
	if one.count() != 3 || two.count() != 3 || len(clock.sleeps) != 2 {
		t.Errorf("asked %d and %d times with %v between", one.count(), two.count(), clock.sleeps)
	}
	if results[0].SubmittedAt.Sub(time.Date(2026, 11, 30, 12, 0, 2, 0, time.UTC)) != 0 {
		t.Errorf("submitted at %s: not when the browser took it", results[0].SubmittedAt)
	}
}

func TestBusyForTooLongFailsThePage(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, busy)
	c, _ := newCrawler(t, b.server.URL)
	results, err := c.crawl([]string{"http://h/"}, time.Time{})
	if err != nil || results[0].Status != "failed" || !strings.Contains(results[0].SkipReason, "busy") || results[0].TaskID != "" {
		t.Errorf("results %+v, %v", results, err)
	}
}

func TestPauseBetweenRounds(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, busy, success)
	start := time.Now()
	if _, err := main("c", []string{"http://h/"}, 0, "2026-11-30T12:00:00Z", formats{}, false, nil, sink{}, fmt.Sprintf("[%q]", b.server.URL), "", 145, 60); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 500*time.Millisecond || took > 30*time.Second {
		t.Errorf("a round's pause took %s, want 0.5 to 1.5 s", took)
	}
}

func TestDeadEndpointsAreSkipped(t *testing.T) {
	t.Parallel()
	dead := newBrowser(t, success)
	dead.server.Close()
	reset := newBrowser(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	alive := newBrowser(t, success)
	c, _ := newCrawler(t, dead.server.URL, reset.server.URL, alive.server.URL)
	results, err := c.crawl([]string{"http://h/a", "http://h/b"}, time.Time{})
	if err != nil || len(results) != 2 || results[1].Status != "captured" {
		t.Fatalf("results %+v, %v", results, err)
	}
	if reset.count() != 2 {
		t.Errorf("an endpoint is skipped for one call only; it was asked %d times", reset.count())
	}
	c, _ = newCrawler(t, dead.server.URL, reset.server.URL)
	if results, err := c.crawl([]string{"http://h/a"}, time.Time{}); !errors.Is(err, errGone) || results != nil {
		t.Errorf("all gone: %+v, %v", results, err)
	}
}

func TestABusyOneOutlivesTheDead(t *testing.T) {
	t.Parallel()
	dead := newBrowser(t, success)
	dead.server.Close()
	b := newBrowser(t, busy, success)
	c, _ := newCrawler(t, dead.server.URL, b.server.URL)
	if results, err := c.crawl([]string{"http://h/a"}, time.Time{}); err != nil || results[0].Status != "captured" {
		t.Errorf("results %+v, %v", results, err)
	}
}

func TestNoAnswerIsAFailureWithoutATask(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c, _ := newCrawler(t, b.server.URL)
	c.answer = 300 * time.Millisecond
	results, err := c.crawl([]string{"http://h/"}, time.Time{})
	if err != nil || results[0].Status != "failed" || results[0].TaskID != "" || !strings.Contains(results[0].SkipReason, "did not answer") || b.count() > 1 {
		t.Errorf("results %+v, %v, asked %d times", results, err, b.count())
	}
}

func TestPrivateCA(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(success))
	t.Cleanup(server.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for certificate, works := range map[string]bool{ca: true, "": false} {
		client, err := newClient(certificate)
		if err != nil {
			t.Fatal(err)
		}
		c, _ := newCrawler(t, server.URL)
		c.client = client
		results, err := c.crawl([]string{"http://h/"}, time.Time{})
		if (err == nil && results[0].Status == "captured") != works {
			t.Errorf("with the CA %t: %+v, %v", works, results, err)
		}
	}
}

func TestLongTextsKeepTheLedgersLimits(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, report("failed", "http", strings.Repeat("港", 3000)))
	c, _ := newCrawler(t, b.server.URL)
	results, err := c.crawl([]string{"http://h/"}, time.Time{})
	if err != nil || len([]rune(results[0].SkipReason)) != maxReason {
		t.Errorf("a reason of %d characters, %v", len([]rune(results[0].SkipReason)), err)
	}
}

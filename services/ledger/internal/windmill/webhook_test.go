package windmill_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/muniment/muniment/services/ledger/internal/windmill"
)

const job = "0190a1b2-0000-7000-8000-00000000abcd"

// What a flow may answer, and what becomes of it: a job, or a reason that can be
// shown to whoever started the crawl.
func TestReplies(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status       int
		reply        string
		job, failure string
	}{
		"bare":                   {201, job, job, ""},
		"a JSON string":          {200, `"` + job + `"`, job, ""},
		"with a newline":         {201, job + "\n", job, ""},
		"upper case":             {201, strings.ToUpper(job), job, ""},
		"nothing":                {201, "", "", "webhook answered 201 without a job id: "},
		"an object":              {200, `{"id":"` + job + `"}`, "", `webhook answered 200 without a job id: {"id":"` + job + `"}`},
		"in braces":              {200, "{" + job + "}", "", "webhook answered 200 without a job id: {" + job + "}"},
		"a page":                 {200, "<html>", "", "webhook answered 200 without a job id: <html>"},
		"not there":              {404, "no such flow", "", "webhook answered 404: no such flow"},
		"broken":                 {500, job, "", "webhook answered 500: " + job},
		"moved":                  {302, "", "", "webhook answered 302: "},
		"what no database takes": {500, "a\x00b\xffc", "", "webhook answered 500: a\uFFFDb\uFFFDc"},
		"long":                   {500, strings.Repeat("ü", 5000), "", "webhook answered 500: " + strings.Repeat("ü", 200)},
		"endless":                {500, strings.Repeat("x", 1<<20), "", "webhook answered 500: " + strings.Repeat("x", 200)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer s3cret" || r.Header.Get("Content-Type") != "application/json" {
					t.Errorf("asked with %s %v", r.Method, r.Header)
				}
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.reply)
			}))
			defer server.Close()
			got, err := windmill.NewWebhook(server.URL, "s3cret", 10*time.Second).Call(t.Context(), windmill.Order{CrawlID: uuid.New()})
			if tc.failure == "" {
				if err != nil || got != tc.job {
					t.Fatalf("%q, %v", got, err)
				}
				return
			}
			if err == nil || err.Error() != tc.failure || !utf8.ValidString(err.Error()) {
				t.Fatalf("%q, %v", got, err)
			}
		})
	}
}

// A flow that is slow, gone, or hangs up fails in words without its address.
func TestNoReply(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	defer close(release)
	rude := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "36")
		_, _ = io.WriteString(w, job[:20])
		panic(http.ErrAbortHandler)
	}))
	defer rude.Close()
	for url, want := range map[string]string{
		slow.URL:              "webhook did not answer in time",
		rude.URL:              "webhook could not be reached",
		"http://127.0.0.1:1/": "webhook could not be reached",
	} {
		if _, err := windmill.NewWebhook(url, "s3cret", 200*time.Millisecond).Call(t.Context(), windmill.Order{}); err == nil || err.Error() != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// Webhook runs fill no defaults, so the body has every key, and one without a
// value is left out only where the contract says so.
func TestOrder(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		fmt.Fprint(w, job)
	}))
	defer server.Close()
	id := uuid.New()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	order := windmill.Order{
		CrawlID: id, Depth: 1, PerHostDelayMS: 500, HostParallelism: 2, Scripts: []struct{}{},
		Frontier: []windmill.Page{{URL: "http://a/?b&c", Host: "a", LastFinishedAt: &at}, {URL: "http://d/", Host: "d"}},
	}
	if _, err := windmill.NewWebhook(server.URL, "x", time.Second*10).Call(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal([]byte(<-bodies), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"crawl_id":"`+id.String()+`","depth":1,"frontier":[{"url":"http://a/?b&c","host":"a","lastFinishedAt":"2026-11-30T12:00:00Z"},
		{"url":"http://d/","host":"d","lastFinishedAt":null}],"per_host_delay_ms":500,"host_parallelism":2,
		"capture_formats":{"png":false,"webp":false,"html":false,"links":false,"mhtml":false,"wacz":false},"signing":false,"scripts":[]}`), &want); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

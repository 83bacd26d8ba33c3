package inner

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// ledger starts a crawl with the first answer and polls with the others, the
// last one staying.
func ledger(t *testing.T, start string, polls ...string) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var looks atomic.Int32
	write := func(w http.ResponseWriter, answer string) {
		status, body, _ := strings.Cut(answer, " ")
		var code int
		if _, err := fmt.Sscan(status, &code); err != nil {
			t.Error(err)
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/crawls", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("authorization %q", r.Header.Get("Authorization"))
		}
		write(w, start)
	})
	mux.HandleFunc("GET /api/crawls/c1", func(w http.ResponseWriter, _ *http.Request) {
		write(w, polls[min(int(looks.Add(1)), len(polls))-1])
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server, &looks
}

func run(server *httptest.Server) (outcome, error) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	t := trigger{
		api: server.URL + "/api/crawls", token: "secret", client: server.Client(), poll: 10 * time.Second, limit: time.Hour,
		now: func() time.Time { return at }, sleep: func(d time.Duration) { at = at.Add(d) },
	}
	return t.run(map[string]any{"seeds": []string{"http://h/"}})
}

const (
	started   = `202 {"crawlId":"c1"}`
	running   = `200 {"state":"running","stopReason":null,"error":null}`
	succeeded = `200 {"crawlId":"c1","state":"succeeded","stopReason":"completed","pagesDiscovered":4,"pagesCaptured":3,"error":null}`
)

func TestMainWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	server, looks := ledger(t, started, succeeded)
	got, err := main(server.URL, "secret", map[string]any{"seeds": []string{"http://h/"}}, 1, 1)
	if err != nil || got.State != "succeeded" || got.CrawlID != "c1" || got.PagesCaptured != 3 || *got.StopReason != "completed" || looks.Load() != 1 {
		t.Errorf("outcome %+v, %v", got, err)
	}
	if _, err := main(server.URL, "secret", nil, 0, 1); err == nil {
		t.Error("no poll interval passed")
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		start string
		polls []string
		state string
		says  string
		looks int32
	}{
		"another is running":        {`409 {"error":"a crawl is already in progress"}`, nil, "skipped", "", 0},
		"it takes a while":          {started, []string{running, running, succeeded}, "succeeded", "", 3},
		"a poll that fails":         {started, []string{running, "503 {}", "500 {}", succeeded}, "succeeded", "", 4},
		"it failed":                 {started, []string{`200 {"state":"failed","stopReason":"stopped","error":"by hand"}`}, "", "it failed (stopped): by hand", 1},
		"a state from the future":   {started, []string{`200 {"state":"paused"}`}, "", `"paused"`, 1},
		"not allowed":               {`404 {"error":"not found"}`, nil, "", "answered 404", 0},
		"no crawl named":            {`202 {}`, nil, "", "named no crawl", 0},
		"the crawl vanished":        {started, []string{"404 {}"}, "", "answered 404", 1},
		"the ledger stays away":     {started, []string{"503 {}"}, "", "10 times", patience},
		"it never ends":             {started, []string{running}, "", "still running after 1h", 362},
		"an answer without a state": {started, []string{"200 {}"}, "", `state is ""`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, looks := ledger(t, tc.start, tc.polls...)
			got, err := run(server)
			if got.State != tc.state || looks.Load() != tc.looks {
				t.Errorf("outcome %+v after %d looks", got, looks.Load())
			}
			if (err == nil) != (tc.says == "") || (err != nil && !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("error %v, want %q", err, tc.says)
			}
		})
	}
}

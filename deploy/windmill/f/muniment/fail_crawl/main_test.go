package inner

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// ledger answers with one status after another; the last one stays.
func ledger(t *testing.T, got *[]string, statuses ...int) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*got = append(*got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+" "+string(sent))
		w.WriteHeader(statuses[min(len(*got), len(statuses))-1])
		fmt.Fprint(w, `{"closed":true}`)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestMainClosesTheCrawl(t *testing.T) {
	t.Parallel()
	var got []string
	server := ledger(t, &got, 200)
	answer, err := main(server.URL, "secret", "crawl-1")
	if err != nil || !answer.Closed || len(got) != 1 {
		t.Fatalf("answer %+v, %v, sent %v", answer, err, got)
	}
	if want := `POST /api/crawls/crawl-1/failed Bearer secret {"reason":"the Windmill flow failed`; !strings.HasPrefix(got[0], want) {
		t.Errorf("sent %s", got[0])
	}
}

func TestReasonNamesTheJob(t *testing.T) {
	t.Parallel()
	env := map[string]string{"WM_FLOW_JOB_ID": "inner-job", "WM_ROOT_FLOW_JOB_ID": "root-job"}
	c := closer{getenv: func(name string) string { return env[name] }}
	if got := c.reason(); got != "the Windmill flow failed; see job root-job" {
		t.Error(got)
	}
}

func TestALedgerThatComesBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		statuses []int
		calls    int
		works    bool
	}{
		"back at once":     {[]int{503, 200}, 2, true},
		"never":            {[]int{503}, tries, false},
		"refused for good": {[]int{404}, 1, false},
	} {
		var got []string
		slept := 0
		c := closer{sleep: func(time.Duration) { slept++ }, getenv: func(string) string { return "" }}
		answer, err := c.close(ledger(t, &got, tc.statuses...).URL, "secret", "c")
		if (err == nil && answer.Closed) != tc.works || len(got) != tc.calls || slept != tc.calls-1 {
			t.Errorf("%s: %+v, %v after %d calls and %d pauses", name, answer, err, len(got), slept)
		}
	}
}

package inner

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func ledger(t *testing.T, status int, body string, got *string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*got = r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(sent)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestMainReportsEverything(t *testing.T) {
	t.Parallel()
	var got string
	server := ledger(t, http.StatusOK, `{"next":[{"url":"http://h/c","host":"h","depth":2}],"stopReason":null}`, &got)
	skipped := []any{map[string]any{"url": "http://h/x", "status": "skipped"}}
	hosts := [][]any{{map[string]any{"url": "http://h/a"}}, {}, {map[string]any{"url": "http://i/b"}}}
	answer, err := main(server.URL+"/", "secret", "crawl-1", 1, skipped, hosts)
	if err != nil || len(answer.Next) != 1 || answer.Next[0].Depth != 2 || answer.StopReason != nil {
		t.Errorf("answer %+v, %v", answer, err)
	}
	want := `POST /api/crawls/crawl-1/pages Bearer secret {"depth":1,"results":[{"status":"skipped","url":"http://h/x"},{"url":"http://h/a"},{"url":"http://i/b"}]}`
	if got != want {
		t.Errorf("sent %s\nwant %s", got, want)
	}
}

func TestAnEmptyReportIsAListAndNotNull(t *testing.T) {
	t.Parallel()
	var got string
	server := ledger(t, http.StatusOK, `{"next":[],"stopReason":"completed"}`, &got)
	answer, err := main(server.URL, "secret", "c", 0, nil, nil)
	if err != nil || *answer.StopReason != "completed" || !strings.HasSuffix(got, `{"depth":0,"results":[]}`) {
		t.Errorf("answer %+v, %v, sent %s", answer, err, got)
	}
}

func TestMainFailsOnAnyOtherAnswer(t *testing.T) {
	t.Parallel()
	for status, body := range map[int]string{400: `{"error":"results[0].status"}`, 401: "", 404: "", 503: "", 200: "<html>"} {
		var got string
		server := ledger(t, status, body, &got)
		if _, err := main(server.URL, "secret", "c", 0, nil, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

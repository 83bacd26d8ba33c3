package site_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/muniment/muniment/deploy/standins/site"
)

func TestSite(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(site.Handler())
	t.Cleanup(server.Close)
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	for _, tc := range []struct {
		path, contentType, contains string
		status                      int
	}{
		{"/", "text/html; charset=utf-8", `rel="nofollow"`, http.StatusOK},
		{"/docs/one.html", "text/html; charset=utf-8", "Notice one", http.StatusOK},
		{"/docs/%E6%B8%AF.html", "text/html; charset=utf-8", "港", http.StatusOK},
		{"/style.css", "text/css; charset=utf-8", "body", http.StatusOK},
		{"/app.js", "text/javascript; charset=utf-8", "ready", http.StatusOK},
		{"/tide.svg", "image/svg+xml", "<svg", http.StatusOK},
		{"/robots.txt", "text/plain; charset=utf-8", "Disallow: /docs/hidden.html", http.StatusOK},
		{"/moved", "text/html; charset=utf-8", "/docs/two.html", http.StatusFound},
		{"/missing.html", "text/plain; charset=utf-8", "not found", http.StatusNotFound},
		{"/docs", "text/plain; charset=utf-8", "not found", http.StatusNotFound},
		{"/healthz", "", "", http.StatusOK},
	} {
		t.Run(tc.path, func(t *testing.T) {
			t.Parallel()
			resp, err := client.Get(server.URL + tc.path)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tc.status || resp.Header.Get("Content-Type") != tc.contentType || !strings.Contains(string(body), tc.contains) {
				t.Errorf("got %d %q %q, want %d %q with %q", resp.StatusCode, resp.Header.Get("Content-Type"), body, tc.status, tc.contentType, tc.contains)
			}
		})
	}
}

func TestBigBodyHasItsLength(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(site.Handler())
	t.Cleanup(server.Close)
	resp, err := server.Client().Get(server.URL + "/big.bin")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || n != site.BigBytes {
		t.Fatalf("read %d bytes, %v; want %d", n, err, site.BigBytes)
	}
}

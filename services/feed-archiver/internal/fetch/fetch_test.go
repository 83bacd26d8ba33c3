package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var testNow = time.Date(2026, time.August, 2, 3, 4, 5, 0, time.UTC)

func newClient(t *testing.T, settings Settings) *Client {
	t.Helper()
	settings.Contact = "tests@example.org"
	if settings.RequestTimeout == 0 {
		settings.RequestTimeout = 10 * time.Second
	}
	c, err := New(settings, "test", func() time.Time { return testNow })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// serve answers with the handler and returns a request for it.
func serve(t *testing.T, handler http.HandlerFunc) Request {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return ask(t, server.URL+"/feed")
}

func ask(t *testing.T, address string) Request {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return Request{URL: u, Accept: "*/*", Hosts: []string{u.Host}, MaxBytes: 1000}
}

// wantError reads and wants an error with that status and these words.
func wantError(t *testing.T, c *Client, r Request, status int, words string) {
	t.Helper()
	response, err := c.Get(t.Context(), r)
	var failed *Error
	if !errors.As(err, &failed) || failed.Status != status || !strings.Contains(failed.Reason, words) {
		t.Errorf("response %v, error %v; want status %d, %q", response, err, status, words)
	}
}

func TestByteLimits(t *testing.T) {
	t.Parallel()
	c := newClient(t, Settings{})
	for _, size := range []int{999, 1000} {
		r := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("x"), size)) })
		if response, err := c.Get(t.Context(), r); err != nil || len(response.Body) != size {
			t.Errorf("%d bytes: %v, %v", size, response, err)
		}
	}
	wantError(t, c, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), 1001))
	}), http.StatusOK, "more than the limit")
	wantError(t, c, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 11 { // no length is stated
			_, _ = w.Write(bytes.Repeat([]byte("x"), 100))
			_ = http.NewResponseController(w).Flush()
		}
	}), http.StatusOK, "larger than the limit")
}

// TestDecompressionLimit is a megabyte that was sent as a kilobyte.
func TestDecompressionLimit(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(make([]byte, 900_000))
	_ = w.Close()
	if packed.Len() > 1000 {
		t.Fatalf("%d bytes are not under the limit as sent", packed.Len())
	}
	wantError(t, newClient(t, Settings{}), serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	}), http.StatusOK, "larger than the limit")
}

// TestNothingIsNoBody refuses an answer that is as long as it says: nothing.
func TestNothingIsNoBody(t *testing.T) {
	t.Parallel()
	c := newClient(t, Settings{})
	wantError(t, c, serve(t, func(http.ResponseWriter, *http.Request) {}), http.StatusOK, "the body is empty")
	wantError(t, c, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_ = gzip.NewWriter(w).Close()
	}), http.StatusOK, "the body is empty")
}

// TestSlowBody is a server that sends a byte now and then and never ends.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	c := newClient(t, Settings{RequestTimeout: time.Second})
	wantError(t, c, serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			<-time.After(10 * time.Millisecond)
		}
	}), http.StatusOK, "did not arrive in time")
	wantError(t, c, serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), 0, "did not answer in time")
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	c := newClient(t, Settings{})
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("another's word"))
	}))
	defer elsewhere.Close()

	var target string
	asked := 0
	r := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path == "/moved" {
			if r.Referer() != "" {
				t.Errorf("the address that redirected was handed on: %s", r.Referer())
			}
			_, _ = w.Write([]byte("here"))
			return
		}
		http.Redirect(w, r, target, http.StatusFound)
	})
	target = "/moved"
	if response, err := c.Get(t.Context(), r); err != nil || string(response.Body) != "here" || response.URL.Path != "/moved" {
		t.Errorf("a redirect on the same host: %v, %v", response, err)
	}
	target = elsewhere.URL
	wantError(t, c, r, http.StatusFound, "not among the source's hosts")
	target, asked = "/feed", 0
	if wantError(t, c, r, http.StatusFound, "redirects"); asked != 1+maxRedirects {
		t.Errorf("%d requests, want one and %d redirects", asked, maxRedirects)
	}
	target = "file:///etc/passwd"
	wantError(t, c, r, http.StatusFound, "not among the source's hosts")

	target, r.Hosts = elsewhere.URL, append(r.Hosts, strings.TrimPrefix(elsewhere.URL, "http://"))
	if response, err := c.Get(t.Context(), r); err != nil || string(response.Body) != "another's word" {
		t.Errorf("a redirect to an allowed host: %v, %v", response, err)
	}
	r.Hosts = []string{"elsewhere.example"}
	wantError(t, c, r, 0, "not among the source's hosts")
}

// TestTLSIsVerified trusts a server only with the authority in the setting, and
// follows no redirect out of TLS.
func TestTLSIsVerified(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("plain")) }))
	defer plain.Close()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/out" {
			http.Redirect(w, r, plain.URL, http.StatusFound)
			return
		}
		_, _ = w.Write([]byte("sealed"))
	}))
	defer server.Close()
	wantError(t, newClient(t, Settings{}), ask(t, server.URL+"/"), 0, "certificate is not to be trusted")

	file := filepath.Join(t.TempDir(), "ca.pem")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Settings{HTTPCAFile: file})
	if response, err := c.Get(t.Context(), ask(t, server.URL+"/")); err != nil || string(response.Body) != "sealed" {
		t.Errorf("%v, %v", response, err)
	}
	out := ask(t, server.URL+"/out")
	out.Hosts = append(out.Hosts, strings.TrimPrefix(plain.URL, "http://"))
	wantError(t, c, out, http.StatusFound, "from https to http")
}

func TestBrokenAuthoritiesAreNamed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, file + ".missing"} {
		if _, err := New(Settings{HTTPCAFile: name}, "test", time.Now); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v does not name %s", err, name)
		}
	}
}

func TestConditionalRequest(t *testing.T) {
	t.Parallel()
	c := newClient(t, Settings{})
	r := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == `W/"1"` && r.Header.Get("If-Modified-Since") == "then" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write([]byte("body"))
	})
	if response, err := c.Get(t.Context(), r); err != nil || response.Status != http.StatusOK {
		t.Errorf("without validators: %v, %v", response, err)
	}
	r.ETag, r.LastModified = `W/"1"`, "then"
	if response, err := c.Get(t.Context(), r); err != nil || response.Status != http.StatusNotModified || response.Body != nil {
		t.Errorf("with validators: %v, %v", response, err)
	}
}

// TestSpacing lets requests to one host follow each other at the set distance,
// and other hosts go ahead.
func TestSpacing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Client{settings: Settings{MaxWait: 10 * time.Second}, hosts: newHosts(3 * time.Second), now: time.Now}
		start := time.Now()
		for i, want := range []time.Duration{0, 3 * time.Second, 6 * time.Second, 9 * time.Second} {
			if err := c.takeTurn(t.Context(), "a"); err != nil || time.Since(start) != want {
				t.Errorf("turn %d came after %s, error %v, want %s", i, time.Since(start), err, want)
			}
		}
		before := time.Now()
		if err := c.takeTurn(t.Context(), "b"); err != nil || time.Since(before) != 0 {
			t.Errorf("another host had to wait %s, error %v", time.Since(before), err)
		}
		c.hosts.hold("a", time.Now().Add(time.Minute))
		var failed *Error
		if err := c.takeTurn(t.Context(), "a"); !errors.As(err, &failed) || !failed.RetryAfter.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("a host that asked for a minute: %v", err)
		}
		c.hosts.hold("a", time.Now().Add(5*time.Second)) // is no shorter than the minute
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.takeTurn(ctx, "b"); !errors.As(err, &failed) || !strings.Contains(failed.Reason, "stopping") {
			t.Errorf("waiting while stopping: %v", err)
		}
		time.Sleep(55 * time.Second)
		if err := c.takeTurn(t.Context(), "a"); err != nil || time.Since(before) != time.Minute {
			t.Errorf("the host was asked after %s, error %v", time.Since(before), err)
		}
	})
}

func TestRetryAfterForms(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Time{
		"120":                             testNow.Add(2 * time.Minute),
		" 5 ":                             testNow.Add(5 * time.Second),
		"Sun, 02 Aug 2026 03:05:05 GMT":   testNow.Add(time.Minute),
		"99999999":                        testNow.Add(24 * time.Hour),
		"Fri, 02 Aug 2030 03:05:05 GMT":   testNow.Add(24 * time.Hour),
		"":                                {},
		"0":                               {},
		"-5":                              {},
		"soon":                            {},
		"Sun, 02 Aug 2020 03:05:05 GMT":   {},
		"999999999999999999999999999":     {},
		"Sun, 02 Aug 2026 03:05:05 +0000": {},
	} {
		got, ok := retryAfter(&http.Response{Header: http.Header{"Retry-After": {value}}}, testNow)
		if ok == want.IsZero() || (ok && !got.Equal(want)) {
			t.Errorf("%q: %s, %t; want %s", value, got, ok, want)
		}
	}
}

func TestSecretInBody(t *testing.T) {
	t.Parallel()
	r := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("your key is s3cr/t.")) })
	r.Secret = "s3cr/t"
	wantError(t, newClient(t, Settings{}), r, http.StatusOK, "repeats the key")
}

func TestSettingsAreRefused(t *testing.T) {
	t.Parallel()
	good := Settings{Contact: "a@example.org", RequestTimeout: time.Second, MaxWait: time.Second}
	if err := good.Validate("X_"); err != nil {
		t.Errorf("good settings: %v", err)
	}
	for name, spoil := range map[string]func(*Settings){
		"X_CONTACT":         func(s *Settings) { s.Contact = "a@example.org)\r\nCookie: x" },
		"X_REQUEST_TIMEOUT": func(s *Settings) { s.RequestTimeout = 0 },
		"X_HOST_SPACING":    func(s *Settings) { s.HostSpacing = time.Minute },
	} {
		s := good
		spoil(&s)
		if err := s.Validate("X_"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Package feedtest is a server for tests that behaves like the publishers of
// the feeds: their pages, validators, refusals and limits, over fixtures of our
// own (../testdata). It is not a copy of any service, and it holds no recorded
// body.
//
// All publishers stand on one address, each under its own paths, so that every
// source can be pointed at it with Environ. What a path answers can be replaced
// with Answer, to make any publisher fail in any way.
package feedtest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// MapKey is the only key that the hotspot service takes.
const MapKey = "0123456789abcdef0123456789abcdef"

// sources are the names of the settings, without prefix and _URL.
var sources = []string{
	"NWS_ALERTS", "USGS_EARTHQUAKES", "NHC_CURRENT_STORMS", "NHC_ATCF_BEST_TRACK", "SPC_DAY1_OUTLOOK",
	"NIFC_PERIMETERS", "NWS_DAT_SURVEYS", "USGS_STN_HWMS", "USGS_SHAKEMAP_PRODUCTS", "USGS_SHAKEMAP_CONTOURS",
	"NHC_WIND_SWATH", "NHC_FORECAST_CONE", "NHC_SURGE", "NASA_FIRMS", "OPENFEMA_DECLARATIONS",
}

// Server serves all feeds until the test ends.
type Server struct {
	// URL is the server's root, without a slash at its end.
	URL string

	t testing.TB

	mu       sync.Mutex
	answers  map[string][]Answer
	requests []*http.Request
}

// New starts a server.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, answers: map[string][]Answer{}}
	publishers := s.publishers()
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer, ok := s.note(r); ok {
			answer.send(w, r)
			return
		}
		publishers.ServeHTTP(w, r)
	}))
	t.Cleanup(listening.Close)
	s.URL = listening.URL
	return s
}

// Environ returns the settings that point every source at the server, and that
// let tests read without waiting.
func (s *Server) Environ() []string {
	key := filepath.Join(s.t.TempDir(), "map-key")
	if err := os.WriteFile(key, []byte(MapKey+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	environ := []string{
		"MUNIMENT_FEED_CONTACT=tests@example.org",
		"MUNIMENT_FEED_HOST_SPACING=0s",
		"MUNIMENT_FEED_NASA_FIRMS_MAP_KEY_FILE=" + key,
	}
	for _, source := range sources {
		environ = append(environ, "MUNIMENT_FEED_"+source+"_URL="+s.URL+"/")
	}
	return environ
}

// Answer replaces what a path answers: each request takes the next of the
// answers, and the last one stays.
func (s *Server) Answer(path string, answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[path] = answers
}

// Requests returns the requests for a path so far; for "" all of them.
func (s *Server) Requests(path string) []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*http.Request
	for _, r := range s.requests {
		if path == "" || r.URL.Path == path {
			found = append(found, r)
		}
	}
	return found
}

// note records a request and finds the answer that a test has set for it.
func (s *Server) note(r *http.Request) (Answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	answers := s.answers[r.URL.Path]
	if len(answers) == 0 {
		return Answer{}, false
	}
	if len(answers) > 1 {
		s.answers[r.URL.Path] = answers[1:]
	}
	return answers[0], true
}

// Fixture returns one of our own bodies, "nws_alerts/two.json".
func Fixture(t testing.TB, name string) []byte {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	body, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "testdata", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// hasContact says whether a User-Agent names somebody to write to.
func hasContact(r *http.Request) bool {
	return strings.Contains(r.UserAgent(), "@") || strings.Contains(r.UserAgent(), "http")
}

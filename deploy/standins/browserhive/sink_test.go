package browserhive_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muniment/muniment/deploy/standins/browserhive"
)

// sink is a small artifact sink that keeps what it gets.
type sink struct {
	server *httptest.Server
	mu     sync.Mutex
	files  map[string][]byte
	order  []string
	status int
}

const sinkToken = "sink-token"

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{files: map[string][]byte{}, status: http.StatusOK}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /api/sink/crawl/{name}", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+sinkToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading an artifact: %v", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.status != http.StatusOK {
			w.WriteHeader(s.status)
			return
		}
		name := r.PathValue("name")
		s.files[name] = data
		s.order = append(s.order, name)
		_ = json.NewEncoder(w).Encode(map[string]string{"location": "s3://bucket/org/acme/2026-11/" + name})
	})
	s.server = httptest.NewServer(mux)
	t.Cleanup(s.server.Close)
	return s
}

func (s *sink) request() map[string]any {
	return map[string]any{"url": s.server.URL + "/api/sink/crawl", "token": sinkToken}
}

func (s *sink) file(t *testing.T, location string) []byte {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.files[strings.TrimPrefix(location, "s3://bucket/org/acme/2026-11/")]
	if !ok {
		t.Fatalf("nothing was put at %q; there is %v", location, s.order)
	}
	return data
}

func (s *sink) has(location string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.files[strings.TrimPrefix(location, "s3://bucket/org/acme/2026-11/")]
	return ok
}

func (s *sink) lastName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == 0 {
		return ""
	}
	return s.order[len(s.order)-1]
}

// answer is what a caller reads of a reply.
type answer struct {
	status    int
	errorType string
	TaskID    string `json:"taskId"`
	Message   string `json:"message"`
	Report    report `json:"report"`
	Manifest  struct {
		Location string `json:"location"`
		Error    string `json:"error"`
	} `json:"manifest"`
}

type report struct {
	TaskID         string            `json:"taskId"`
	Status         string            `json:"status"`
	HTTPStatusCode int               `json:"httpStatusCode"`
	Timestamp      time.Time         `json:"timestamp"`
	Artifacts      map[string]string `json:"artifacts"`
	Completeness   *struct {
		BodylessURLs  []string `json:"bodylessUrls"`
		TruncatedURLs []string `json:"truncatedUrls"`
		Complete      bool     `json:"complete"`
	} `json:"completeness"`
	ErrorDetails *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"errorDetails"`
}

func newStandIn(t *testing.T, settings browserhive.Settings) *httptest.Server {
	t.Helper()
	standIn, err := browserhive.New(settings, nil, "", slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(standIn)
	t.Cleanup(func() { server.Close(); standIn.Close() })
	return server
}

func body(page string, s *sink, changes map[string]any) map[string]any {
	b := map[string]any{
		"url": page, "labels": []string{"harbour"}, "correlationId": "crawl-1", "signing": false,
		"captureFormats": map[string]bool{"png": false, "webp": false, "html": false, "links": true, "mhtml": false, "wacz": true},
	}
	if s != nil {
		b["artifactSink"] = s.request()
	}
	maps.Copy(b, changes)
	return b
}

func capture(t *testing.T, server *httptest.Server, request any) answer {
	t.Helper()
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Post(server.URL+"/captures", "application/json", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, errorType: resp.Header.Get("X-Amzn-Errortype")}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		t.Fatalf("decoding the reply: %v", err)
	}
	return a
}

package browserhive

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
)

// Server is the stand-in. Close it when its HTTP server is down.
type Server struct {
	settings Settings
	fetcher  *fetcher
	bucket   store
	log      *slog.Logger
	now      func() time.Time
	busy     atomic.Bool
	late     lateManifests
	mux      *http.ServeMux
}

// New prepares a stand-in that writes to bucket through s3. Without a client
// it takes only captures that name an artifact sink.
func New(settings Settings, s3 *minio.Client, bucket string, log *slog.Logger, now func() time.Time) (*Server, error) {
	settings, err := settings.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("reading the settings: %w", err)
	}
	s := &Server{settings: settings, fetcher: newFetcher(settings.BodyCap, now), bucket: noStore{}, log: log, now: now, mux: http.NewServeMux()}
	if s3 != nil {
		s.bucket = bucketStore{s3: s3, bucket: bucket}
	}
	s.mux.HandleFunc("POST /captures", s.serveCapture)
	s.mux.HandleFunc("GET /status", s.serveStatus)
	s.mux.HandleFunc("POST /standin/manifests/release", s.serveRelease)
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close writes the manifests that are still held back.
func (s *Server) Close() { s.late.release() }

// captureReply is the 200 answer of POST /captures.
type captureReply struct {
	TaskID   string          `json:"taskId"`
	Report   manifest        `json:"report"`
	Manifest manifestWritten `json:"manifest"`
}

// manifestWritten says where the manifest is, or why it is nowhere.
type manifestWritten struct {
	Location string `json:"location,omitempty"`
	Error    string `json:"error,omitempty"`
}

func (s *Server) serveCapture(w http.ResponseWriter, r *http.Request) {
	req, refused := readRequest(w, r)
	if refused != nil {
		reply(w, http.StatusBadRequest, "ValidationException", map[string]any{"message": refused.message, "fieldList": refused.fields})
		return
	}
	if !s.busy.CompareAndSwap(false, true) {
		reply(w, http.StatusTooManyRequests, "Busy", map[string]any{"message": "the browser is capturing something else"})
		return
	}
	defer s.busy.Store(false)

	to := s.bucket
	if req.Sink != nil {
		to = newSinkStore(*req.Sink)
	}
	c := newCapture(s.settings, s.fetcher, to, s.now, req)
	m := c.run(r.Context())
	written := s.writeManifest(r.Context(), c, m)
	s.log.Info("captured", "url", req.URL, "task", m.TaskID, "status", m.Status, "manifest", written.Location, "manifest_error", written.Error)
	reply(w, http.StatusOK, "", captureReply{TaskID: m.TaskID, Report: m, Manifest: written})
}

func (s *Server) writeManifest(ctx context.Context, c *capture, m manifest) manifestWritten {
	if s.settings.LateManifest != "" && strings.Contains(m.URL, s.settings.LateManifest) {
		if location, known := lateLocation(m, c); known {
			s.late.hold(s.settings.LateManifestDelay, func() {
				if _, err := c.putManifest(ctx, m); err != nil {
					s.log.Error("a late manifest was not written", "task", m.TaskID, "error", err)
				}
			})
			return manifestWritten{Location: location}
		}
	}
	location, err := c.putManifest(ctx, m)
	if err != nil {
		return manifestWritten{Error: err.Error()}
	}
	return manifestWritten{Location: location}
}

func (s *Server) serveStatus(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, "", map[string]any{
		"busy":    s.busy.Load(),
		"browser": map[string]any{"url": "http://stand-in.invalid", "connected": true, "version": userAgent},
		"build":   map[string]any{"version": "stand-in", "revision": "local stack only"},
	})
}

func (s *Server) serveRelease(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, "", map[string]any{"released": s.late.release()})
}

func reply(w http.ResponseWriter, status int, errorType string, body any) {
	w.Header().Set("Content-Type", "application/json")
	if errorType != "" {
		w.Header().Set("X-Amzn-Errortype", errorType)
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client went away: nobody is left to tell
}

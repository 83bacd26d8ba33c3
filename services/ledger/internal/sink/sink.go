// Package sink takes artifacts from BrowserHive over HTTP and streams them into
// the bucket, so that a browser needs no bucket credentials. It knows no more of
// a file than its name; a manifest that arrives is recorded as a submission at
// once, and admission is left to the level report and the reconciler.
package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/telemetry"
)

const (
	// MaxBytes is the largest artifact.
	MaxBytes = 512 << 20
	// maxManifestBytes is the largest manifest that is looked into.
	maxManifestBytes = 1 << 20
	manifestSuffix   = ".result.json"
)

// ErrNoCrawl is what Crawls returns for an id that is no crawl, or one that was
// made without a sink.
var ErrNoCrawl = errors.New("no such crawl")

// ErrUnreadable is wrapped by what Crawls.RecordManifest returns for a file
// that is no manifest; its text may be logged.
var ErrUnreadable = errors.New("not a readable manifest")

// crawls is what the sink asks of the ledger.
type crawls interface {
	// SinkPrefix returns the folder that was fixed when the crawl was made,
	// "org/<orgId>/<YYYY-MM>/", or ErrNoCrawl.
	SinkPrefix(ctx context.Context, crawl uuid.UUID) (string, error)
	// Admitted says whether an archive is admitted under this key.
	Admitted(ctx context.Context, bucket, key string) (bool, error)
	// RecordManifest records the submission that a manifest describes, for the
	// crawl's organization and requester.
	RecordManifest(ctx context.Context, crawl uuid.UUID, key string, manifest []byte) error
}

// Settings of the sink.
type Settings struct {
	Bucket string
	// Uploads bounds those that run at once, and with it the memory: each takes
	// three parts.
	Uploads int
	// Timeout bounds one upload.
	Timeout time.Duration
}

// Sink is the HTTP handler of PUT /api/sink/{crawlId}/{filename}.
type Sink struct {
	crawls   crawls
	store    store
	tokens   Tokens
	settings Settings
	uploads  *prometheus.CounterVec
	log      *zap.Logger
	now      func() time.Time
	slots    chan struct{}
}

// New returns the handler.
func New(c crawls, s store, tokens Tokens, settings Settings, metrics prometheus.Registerer, log *zap.Logger, now func() time.Time) *Sink {
	uploads := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muniment_sink_uploads_total", Help: "Uploads by HTTP status.",
	}, []string{"status"})
	metrics.MustRegister(uploads)
	return &Sink{
		crawls: c, store: s, tokens: tokens, settings: settings, uploads: uploads, log: log, now: now,
		slots: make(chan struct{}, settings.Uploads),
	}
}

// ServeHTTP stores one artifact. The router has decoded crawlId and filename
// exactly once.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body := s.put(w, r)
	s.uploads.WithLabelValues(http.StatusText(status)).Inc()
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if status >= http.StatusBadRequest {
		// What is left of a refused body is not worth reading.
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func failure(text string) map[string]string { return map[string]string{"error": text} }

func (s *Sink) put(w http.ResponseWriter, r *http.Request) (int, map[string]string) {
	ctx, cancel := context.WithTimeout(r.Context(), s.settings.Timeout)
	defer cancel()
	log := telemetry.Log(ctx, s.log)

	crawl, err := uuid.Parse(r.PathValue("crawlId"))
	token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if err != nil || !isBearer || !s.tokens.Valid(token, crawl, s.now()) {
		return http.StatusUnauthorized, failure("invalid or expired sink token")
	}
	name := r.PathValue("filename")
	if rule := badName(name); rule != "" {
		return http.StatusBadRequest, failure("filename: " + rule)
	}
	prefix, err := s.crawls.SinkPrefix(ctx, crawl)
	if errors.Is(err, ErrNoCrawl) {
		return http.StatusNotFound, failure("not found")
	}
	if err != nil {
		log.Error("looking up the crawl of an artifact", zap.Error(err))
		return http.StatusServiceUnavailable, failure("database is not available")
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		return http.StatusServiceUnavailable, failure("too many uploads at once")
	}
	// An upload lives longer than any other request; its own limit holds.
	_ = http.NewResponseController(w).SetReadDeadline(s.now().Add(s.settings.Timeout))
	_ = http.NewResponseController(w).SetWriteDeadline(s.now().Add(s.settings.Timeout + time.Minute))
	return s.storeArtifact(ctx, log, crawl, prefix+name, r)
}

var (
	errAdmitted = errors.New("an archive is already admitted under this name")
	// errRows is a database that does not answer.
	errRows = errors.New("asking whether an archive is admitted under the name")
)

// storeArtifact streams one artifact to its key.
func (s *Sink) storeArtifact(ctx context.Context, log *zap.Logger, crawl uuid.UUID, key string, r *http.Request) (int, map[string]string) {
	free := func() error {
		taken, err := s.crawls.Admitted(ctx, s.settings.Bucket, key)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", errRows, err)
		case taken:
			return errAdmitted
		}
		return nil
	}
	// Asked before the first byte, so that nobody sends 512 MiB for a refusal,
	// and again before the object becomes visible.
	err := free()
	var manifest bytes.Buffer
	if err == nil {
		body := io.Reader(r.Body)
		if strings.HasSuffix(key, manifestSuffix) {
			body = io.TeeReader(body, &headWriter{to: &manifest, left: maxManifestBytes + 1})
		}
		to := target{store: s.store, bucket: s.settings.Bucket, key: key, opts: minio.PutObjectOptions{ContentType: r.Header.Get("Content-Type")}}
		err = upload(ctx, to, body, MaxBytes, free)
	}
	switch {
	case err == nil:
	case errors.Is(err, errAdmitted):
		return http.StatusConflict, failure(errAdmitted.Error())
	case errors.Is(err, errEmpty):
		return http.StatusBadRequest, failure("body: must not be empty")
	case errors.Is(err, errTooLarge):
		return http.StatusRequestEntityTooLarge, failure(fmt.Sprintf("body: must be at most %d bytes", MaxBytes))
	case errors.Is(err, errBroken):
		log.Warn("an upload broke off", zap.String("key", key), zap.Error(err))
		return http.StatusBadRequest, failure("body: broke off before its end")
	case errors.Is(err, errRows):
		log.Error("storing an artifact", zap.String("key", key), zap.Error(err))
		return http.StatusServiceUnavailable, failure("database is not available")
	default:
		log.Error("storing an artifact", zap.String("key", key), zap.Error(err))
		return http.StatusServiceUnavailable, failure("object store is not available")
	}
	if strings.HasSuffix(key, manifestSuffix) {
		if err := s.record(ctx, log, crawl, key, manifest.Bytes()); err != nil {
			return http.StatusServiceUnavailable, failure("database is not available")
		}
	}
	return http.StatusOK, map[string]string{"location": "s3://" + s.settings.Bucket + "/" + key}
}

// record notes a manifest's submission. One that cannot be read stays stored,
// and the log says why; only a database that does not answer is the sender's
// to repeat.
func (s *Sink) record(ctx context.Context, log *zap.Logger, crawl uuid.UUID, key string, manifest []byte) error {
	if len(manifest) > maxManifestBytes {
		log.Warn("a manifest is stored and not recorded: too large", zap.String("key", key))
		return nil
	}
	err := s.crawls.RecordManifest(ctx, crawl, key, manifest)
	if errors.Is(err, ErrUnreadable) {
		log.Warn("a manifest is stored and not recorded", zap.String("key", key), zap.Error(err))
		return nil
	}
	if err != nil {
		log.Error("recording a manifest's submission", zap.String("key", key), zap.Error(err))
	}
	return err
}

// headWriter keeps the first bytes of a stream and lets the rest pass.
type headWriter struct {
	to   *bytes.Buffer
	left int
}

func (h *headWriter) Write(p []byte) (int, error) {
	n := min(len(p), h.left)
	h.to.Write(p[:n])
	h.left -= n
	return len(p), nil
}

package archive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/services/feed-archiver/internal/rights"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// LogName is the one name under which everything that the archive could not
// keep is found in the logs.
const LogName = "AS_ISSUED_ARCHIVE"

var (
	// ErrDisabledUnderTest is what a test process gets that did not opt in.
	ErrDisabledUnderTest = errors.New("archive disabled under test")
	// ErrRights says that the rights register does not allow the source to be kept.
	ErrRights = errors.New("the rights register does not permit storing this source")
	// ErrRead says that a read is not one that can be kept.
	ErrRead = errors.New("not a complete read")
)

// Recorded says what a read that was stored brought.
type Recorded struct {
	// Seen is how many distinct bodies the read held, New how many of them were
	// not in the archive yet. Both are 0 for a 304.
	Seen, New int64
	// PollID is the row of the poll.
	PollID int64
}

// recorder is what the writer needs of the store: at most three statements for
// one read.
type recorder interface {
	Known(ctx context.Context, source string, keys []store.Key) ([]int64, error)
	Record(ctx context.Context, p store.Poll, known []int64, fresh []store.Body) (store.Written, error)
	RecordFailure(ctx context.Context, f store.Failure) error
}

// Writer is the way into the archive. It is safe for concurrent use.
type Writer struct {
	store   recorder
	rights  rights.Register
	metrics *Metrics
	log     *zap.Logger
	inTests bool
}

// Option changes how a writer is made.
type Option func(*Writer)

// InTests lets a writer store although it runs in a test process. Only a test
// with a database of its own may say so.
func InTests() Option { return func(w *Writer) { w.inTests = true } }

// New makes a writer.
func New(s *store.Store, register rights.Register, metrics *Metrics, log *zap.Logger, options ...Option) *Writer {
	w := &Writer{store: s, rights: register, metrics: metrics, log: log}
	for _, o := range options {
		o(w)
	}
	return w
}

// Record stores one complete read: its poll, and the bodies that are new. The
// error is for information; it has been logged and counted, and a read that
// turned out to hold what may not be kept stands among the failed reads.
func (w *Writer) Record(ctx context.Context, r Read) (recorded Recorded, err error) {
	defer func() { err = w.finish(ctx, "read", r.Source, r.Request, recover(), err) }()
	if err := w.allowed(r.Source); err != nil {
		return Recorded{}, err
	}
	recorded, err = w.record(ctx, r)
	switch {
	case err == nil:
		w.metrics.read(r, recorded)
	case errors.Is(err, ErrItem) || errors.Is(err, ErrRead):
		failure := Failure{Source: r.Source, Request: r.Request, FetchedAt: r.FetchedAt, HTTPStatus: r.HTTPStatus, Reason: err.Error()}
		err = errors.Join(err, w.recordFailure(ctx, failure))
	}
	return recorded, err
}

// RecordFailure stores a read that held nothing we may keep.
func (w *Writer) RecordFailure(ctx context.Context, f Failure) (err error) {
	defer func() { err = w.finish(ctx, "failed read", f.Source, f.Request, recover(), err) }()
	if err := w.allowed(f.Source); err != nil {
		return err
	}
	return w.recordFailure(ctx, f)
}

func (w *Writer) allowed(source string) error {
	if testing.Testing() && !w.inTests {
		return ErrDisabledUnderTest
	}
	if !w.rights.MayStore(source) {
		return ErrRights
	}
	return nil
}

// finish turns a panic into an error, and logs and counts what went wrong.
func (w *Writer) finish(ctx context.Context, what, source, request string, panicked any, err error) error {
	if panicked != nil {
		err = fmt.Errorf("panic: %v", panicked)
	}
	if err == nil {
		return nil
	}
	w.metrics.writeFailed(source)
	telemetry.Log(ctx, w.log).Error(LogName, zap.String("what", what), zap.String("source", source),
		zap.String("request", request), zap.Error(err))
	return err
}

func (w *Writer) recordFailure(ctx context.Context, f Failure) error {
	w.metrics.failed(f)
	return w.store.RecordFailure(ctx, store.Failure{
		Source: f.Source, Request: f.Request, FetchedAt: f.FetchedAt, HTTPStatus: f.HTTPStatus, Reason: oneLine(f.Reason),
	})
}

// record makes of the read what is stored. A text is formed twice, for its hash
// and, if it is new, to be sent: holding every text of a large read that
// brought nothing new would cost far more.
func (w *Writer) record(ctx context.Context, r Read) (Recorded, error) {
	poll := store.Poll{
		Source: r.Source, Request: r.Request, FetchedAt: r.FetchedAt, HTTPStatus: r.HTTPStatus,
		Date: cut(r.Headers.Date), Age: cut(r.Headers.Age), LastModified: cut(r.Headers.LastModified),
	}
	if err := complete(r); err != nil {
		return Recorded{}, err
	}
	if r.NotModified {
		written, err := w.store.Record(ctx, poll, nil, nil)
		return Recorded{PollID: written.PollID}, err
	}
	distinct, keys, err := w.keys(r)
	if err != nil {
		return Recorded{}, err
	}
	known, err := w.store.Known(ctx, r.Source, keys)
	if err != nil {
		return Recorded{}, err
	}
	var fresh []store.Body
	for i, item := range distinct {
		if known[i] != 0 {
			continue
		}
		text, encoding, err := form(item, r.RemovedFields)
		if err != nil {
			return Recorded{}, err
		}
		fresh = append(fresh, store.Body{Key: keys[i], IssuedAt: storable(item.IssuedAt), Encoding: encoding, Text: string(text)})
	}
	seen := int64(len(keys))
	poll.Seen = &seen
	written, err := w.store.Record(ctx, poll, known, fresh)
	if err != nil {
		return Recorded{}, err
	}
	return Recorded{Seen: seen, New: written.New, PollID: written.PollID}, nil
}

// complete refuses what claims to be a read and is none, whoever hands it in: a
// server that did not answer with the feed would pass for a calm one.
func complete(r Read) error {
	switch {
	case r.NotModified != (r.HTTPStatus == http.StatusNotModified):
		return fmt.Errorf("%w: status %d, and not modified: %t", ErrRead, r.HTTPStatus, r.NotModified)
	case r.NotModified && len(r.Items) > 0:
		return fmt.Errorf("%w: a 304 with items", ErrRead)
	case !r.NotModified && (r.HTTPStatus < 200 || r.HTTPStatus > 299):
		return fmt.Errorf("%w: status %d", ErrRead, r.HTTPStatus)
	}
	return nil
}

// Preview says what Record would report, and stores nothing.
func (w *Writer) Preview(ctx context.Context, r Read) (Recorded, error) {
	if err := w.allowed(r.Source); err != nil || r.NotModified {
		return Recorded{}, err
	}
	_, keys, err := w.keys(r)
	if err != nil {
		return Recorded{}, err
	}
	known, err := w.store.Known(ctx, r.Source, keys)
	if err != nil {
		return Recorded{}, err
	}
	recorded := Recorded{Seen: int64(len(keys))}
	for _, id := range known {
		if id == 0 {
			recorded.New++
		}
	}
	return recorded, nil
}

// keys returns the read's distinct items with their keys: the same body of the
// same product, met twice because pages moved, is one.
func (w *Writer) keys(r Read) ([]Item, []store.Key, error) {
	items, keys := make([]Item, 0, len(r.Items)), make([]store.Key, 0, len(r.Items))
	met := make(map[store.Key]struct{}, len(r.Items))
	for _, item := range r.Items {
		if item.ProductID == "" {
			return nil, nil, fmt.Errorf("%w: it has no product id", ErrItem)
		}
		if len(item.Body) == 0 {
			return nil, nil, fmt.Errorf("%w: %s has no body", ErrItem, quote(item.ProductID))
		}
		if err := errors.Join(checkName("product id", item.ProductID), checkName("item key", item.ItemKey)); err != nil {
			return nil, nil, err
		}
		text, _, err := form(item, r.RemovedFields)
		if err != nil {
			return nil, nil, err
		}
		key := store.Key{ProductID: item.ProductID, ItemKey: item.ItemKey, Hash: hashOf(text)}
		if _, again := met[key]; again {
			continue
		}
		met[key] = struct{}{}
		items, keys = append(items, item), append(keys, key)
	}
	return items, keys, nil
}

// storable leaves out a time that is outside of the calendar that RFC 3339
// can spell: it would come back as another one.
func storable(t *time.Time) *time.Time {
	if t == nil || t.UTC().Year() < 1 || t.UTC().Year() > 9999 {
		return nil
	}
	u := t.UTC().Truncate(time.Microsecond)
	return &u
}

// maxHeader and maxReason bound what is kept of words that others chose.
const (
	maxHeader = 200
	maxReason = 1000
)

// cut keeps the beginning of a header as valid text without NUL.
func cut(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s[:min(len(s), maxHeader)], ""), "\x00", "")
}

// oneLine makes a reason fit to be kept: one line, valid, not empty.
func oneLine(reason string) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(strings.ReplaceAll(reason, "\x00", ""), "\uFFFD")), " ")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	if s == "" {
		return "no reason given"
	}
	return s
}

package listing_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/identity"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

var now = time.Date(2026, 11, 30, 17, 0, 30, 0, time.UTC)

var alice = identity.Identity{Subject: "alice", Organizations: []string{"acme"}}

// rows are archives in memory, newest first. reads counts the statements. The
// first so many (requested) were asked for by the caller or his organization.
type rows struct {
	mu        sync.Mutex
	all       []store.Archive
	requested int
	reads     int
	err       error
	guessErr  error
}

// newRows makes n archives, a second apart, the newest first, all of them asked
// for by the caller; number i's id, and its task's, ends in i.
func newRows(n int) *rows {
	r := &rows{requested: n}
	for i := range n {
		r.all = append(r.all, store.Archive{ID: idOf(i), TaskID: idOf(i), CapturedAt: now.Add(-time.Duration(i) * time.Second)})
	}
	return r
}

func idOf(i int) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint32(id[12:], uint32(i))
	return id
}

func (r *rows) ListArchives(_ context.Context, f store.ArchiveFilter, after store.Position, limit int32) ([]store.Archive, error) {
	if f.Among == nil {
		return r.list(func(store.Archive) bool { return true }, after, limit)
	}
	among := make(map[uuid.UUID]bool, len(f.Among))
	for _, id := range f.Among {
		among[id] = true
	}
	return r.list(func(a store.Archive) bool { return among[a.ID] }, after, limit)
}

func (r *rows) list(match func(store.Archive) bool, after store.Position, limit int32) ([]store.Archive, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	begin := sort.Search(len(r.all), func(i int) bool {
		a := r.all[i]
		return a.CapturedAt.Before(after.CapturedAt) || a.CapturedAt.Equal(after.CapturedAt) && bytes.Compare(a.ID[:], after.ID[:]) < 0
	})
	var found []store.Archive
	for _, a := range r.all[begin:] {
		if len(found) == int(limit) {
			break
		}
		if match(a) {
			found = append(found, a)
		}
	}
	return found, r.err
}

func (r *rows) CountRequested(_ context.Context, tasks []uuid.UUID, organizations []string, subject string) (int, error) {
	if len(organizations) == 0 || subject == "" {
		panic("nobody asks")
	}
	n := 0
	for _, task := range tasks {
		if number(task) < r.requested {
			n++
		}
	}
	return n, r.guessErr
}

// words is an engine that knows what is visible. It is strict: a question that
// the real one would refuse panics.
type words struct {
	mu      sync.Mutex
	visible func(id uuid.UUID) bool
	// listed is what a listing returns; complete, whether it can be trusted.
	listed   []uuid.UUID
	complete bool

	checks, listings int
	inFlight, most   int
	// failCheck fails the check with that number (1 is the first).
	failCheck int
	failList  bool
	// gate, where set, is waited for in every check after the first.
	gate chan struct{}
}

var errEngine = errors.New("the engine failed")

func (w *words) BatchCheck(ctx context.Context, queries []fga.Query) ([]bool, error) {
	if len(queries) == 0 || len(queries) > 50 {
		panic("a batch of that size")
	}
	w.mu.Lock()
	w.checks++
	number := w.checks
	w.inFlight++
	w.most = max(w.most, w.inFlight)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.inFlight--
		w.mu.Unlock()
	}()
	if w.gate != nil && number > 1 {
		select {
		case <-w.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if number == w.failCheck {
		return nil, errEngine
	}
	answers := make([]bool, len(queries))
	for i, q := range queries {
		if q.Relation != "can_view" || q.At.IsZero() || q.Subject == "" {
			panic("a question without a part")
		}
		answers[i] = w.visible(uuid.MustParse(strings.TrimPrefix(q.Object, "archive:")))
	}
	return answers, nil
}

func (w *words) ListObjects(_ context.Context, q fga.Query, objectType string) ([]string, bool, error) {
	if objectType != "archive" || q.Relation != "can_view" || q.At.IsZero() {
		panic("a listing without a part")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listings++
	if w.failList {
		return nil, false, errEngine
	}
	var objects []string
	for _, id := range w.listed {
		objects = append(objects, fga.Archive(id.String()))
	}
	return objects, w.complete, nil
}

func (w *words) counts() (checks, listings int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checks, w.listings
}

package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

// fake is a queue whose waiting rows go as the clock does.
type fake struct {
	dead    []store.Dead
	waiting []int64 // one answer after the other, the last for ever
	retried []int64
	woken   int
	err     error

	discarded []store.Discard

	undelivered []bool // as waiting
	asked       []string
}

func (f *fake) Undelivered(_ context.Context, keys []string) (bool, error) {
	waits := f.undelivered[0]
	if len(f.undelivered) > 1 {
		f.undelivered = f.undelivered[1:]
	}
	f.asked = keys
	return waits, f.err
}

func (f *fake) Discard(_ context.Context, d store.Discard) error {
	f.discarded = append(f.discarded, d)
	return f.err
}

func (f *fake) Stats(context.Context) (store.Stats, error) {
	n := f.waiting[0]
	if len(f.waiting) > 1 {
		f.waiting = f.waiting[1:]
	}
	return store.Stats{Waiting: n, Dead: int64(len(f.dead))}, f.err
}

func (f *fake) ListDead(_ context.Context, afterID int64, limit int) ([]store.Dead, error) {
	var found []store.Dead
	for _, d := range f.dead {
		if d.ID > afterID && len(found) < limit {
			found = append(found, d)
		}
	}
	return found, f.err
}

func (f *fake) Retry(_ context.Context, ids []int64) (int64, error) {
	f.retried = ids
	return int64(len(ids)), f.err
}

func (f *fake) RetryAll(context.Context) (int64, error) { return int64(len(f.dead)), f.err }
func (f *fake) Wake()                                   { f.woken++ }

func TestListDeadPages(t *testing.T) {
	t.Parallel()
	f := &fake{}
	for id := range int64(5) {
		f.dead = append(f.dead, store.Dead{ID: id + 1, Reason: "no"})
	}
	size := int32(2)
	req := &outboxrelayv1.ListDeadRequest{PageSize: &size}
	var seen []int64
	for range 3 {
		page, err := New(f, f, zap.NewNop()).ListDead(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.GetRows() {
			seen = append(seen, row.GetId())
		}
		req.PageToken = page.NextPageToken
	}
	if !slices.Equal(seen, []int64{1, 2, 3, 4, 5}) || req.PageToken != nil {
		t.Errorf("pages hold %v, then %v", seen, req.PageToken)
	}
	wrong := "x"
	if _, err := New(f, f, zap.NewNop()).ListDead(t.Context(), &outboxrelayv1.ListDeadRequest{PageToken: &wrong}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a wrong page token: %v", err)
	}
}

func TestRetryWakesTheRelay(t *testing.T) {
	t.Parallel()
	f := &fake{dead: make([]store.Dead, 3)}
	reply, err := New(f, f, zap.NewNop()).Retry(t.Context(), &outboxrelayv1.RetryRequest{Ids: []int64{7, 8}})
	if err != nil || reply.GetRetried() != 2 || !slices.Equal(f.retried, []int64{7, 8}) || f.woken != 1 {
		t.Errorf("%v %v, woken %d times", reply, err, f.woken)
	}
	reply, err = New(f, f, zap.NewNop()).Retry(t.Context(), &outboxrelayv1.RetryRequest{All: true})
	if err != nil || reply.GetRetried() != 3 || f.woken != 2 {
		t.Errorf("%v %v, woken %d times", reply, err, f.woken)
	}
}

func TestDiscardSaysWhatItWillNot(t *testing.T) {
	t.Parallel()
	f := &fake{}
	req := &outboxrelayv1.DiscardRequest{Id: 7, Person: "alice", Reason: "no such relation, ever"}
	if _, err := New(f, f, zap.NewNop()).Discard(t.Context(), req); err != nil || f.woken != 1 {
		t.Errorf("%v, woken %d times", err, f.woken)
	}
	if want := (store.Discard{ID: 7, Person: "alice", Reason: "no such relation, ever"}); !slices.Equal(f.discarded, []store.Discard{want}) {
		t.Errorf("the queue is told %+v", f.discarded)
	}
	for _, bad := range []*outboxrelayv1.DiscardRequest{
		{Id: 7, Person: " ", Reason: "x"},
		{Id: 7, Person: "alice", Reason: "\n"},
		{Id: 7, Person: "al\x00ice", Reason: "x"},
		{Id: 7, Person: "alice", Reason: "two\nlines"},
	} {
		if _, err := New(f, f, zap.NewNop()).Discard(t.Context(), bad); status.Code(err) != codes.InvalidArgument || len(f.discarded) != 1 {
			t.Errorf("%v: %v", bad, err)
		}
	}
	f.err = fmt.Errorf("discarding a row: %w", store.ErrNotDead)
	_, err := New(f, f, zap.NewNop()).Discard(t.Context(), req)
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "the row is not set aside") {
		t.Errorf("a row that waits: %v", err)
	}
}

func TestDrainWaitsAndGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{waiting: []int64{3, 2, 0}}
		reply, err := New(f, f, zap.NewNop()).Drain(t.Context(), &outboxrelayv1.DrainRequest{})
		if err != nil || !reply.GetDrained() || f.woken != 1 {
			t.Errorf("%v %v", reply, err)
		}
		f.waiting = []int64{4}
		seconds := int32(3)
		began := time.Now()
		reply, err = New(f, f, zap.NewNop()).Drain(t.Context(), &outboxrelayv1.DrainRequest{WaitSeconds: &seconds})
		if err != nil || reply.GetDrained() || reply.GetWaiting() != 4 || time.Since(began) != 3*time.Second {
			t.Errorf("%v %v after %s", reply, err, time.Since(began))
		}
		f.err = errors.New("gone")
		if _, err := New(f, f, zap.NewNop()).Drain(t.Context(), &outboxrelayv1.DrainRequest{}); err == nil {
			t.Error("an error of the queue is no answer")
		}
	})
}

package store_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// Of readers that claim a source at the very same moment one has it, whether it
// is due or claimed by force.
func TestOneOfManyClaims(t *testing.T) {
	t.Parallel()
	s := store.New(testkit.Postgres(t).Pool(t, "feed"))
	for round := range testkit.Soak(40, 1000) {
		var claims atomic.Int64
		var holder atomic.Value
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 8 {
			wg.Go(func() {
				reader := uuid.New()
				<-start
				_, claimed, err := s.Claim(context.WithoutCancel(t.Context()), "demo", reader, time.Minute, round%2 == 1)
				if err != nil {
					t.Error(err)
				}
				if claimed {
					claims.Add(1)
					holder.Store(reader)
				}
			})
		}
		close(start)
		wg.Wait()
		if claims.Load() != 1 {
			t.Fatalf("round %d: %d readers hold the source", round, claims.Load())
		}
		if err := s.Release(t.Context(), "demo", holder.Load().(uuid.UUID), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// A claim is its reader's alone, and ends by itself.
func TestAClaimIsItsReaders(t *testing.T) {
	t.Parallel()
	s := store.New(testkit.Postgres(t).Pool(t, "feed"))
	ctx, first, second := t.Context(), uuid.New(), uuid.New()
	claim := func(reader uuid.UUID, lease time.Duration, force, want bool) {
		t.Helper()
		if _, got, err := s.Claim(ctx, "demo", reader, lease, force); err != nil || got != want {
			t.Errorf("claimed: %t, %v; want %t", got, err, want)
		}
	}
	renew := func(reader uuid.UUID, want bool) {
		t.Helper()
		if got, err := s.Renew(ctx, "demo", reader, time.Minute); err != nil || got != want {
			t.Errorf("renewed: %t, %v; want %t", got, err, want)
		}
	}
	claim(first, 300*time.Millisecond, false, true)
	claim(second, time.Minute, true, false)
	renew(second, false)
	if err := s.Release(ctx, "demo", second, 0); err != nil {
		t.Fatal(err)
	}
	claim(second, time.Minute, true, false) // what the second gave back was not its own
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		_, claimed, err := s.Claim(ctx, "demo", second, time.Minute, false)
		return claimed, "the lease has ended, and nobody can claim " + errorText(err)
	})
	renew(first, false)
	renew(second, true)
	if err := s.Release(ctx, "demo", second, time.Hour); err != nil {
		t.Fatal(err)
	}
	claim(first, time.Minute, false, false) // not due
	claim(first, time.Minute, true, true)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

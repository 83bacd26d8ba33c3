package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The waits grow and stay below five seconds; what the engine asks for is
// honoured up to thirty.
func TestGateWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Now)
		for n := range 12 {
			g.fail(0)
			began := time.Now()
			leave, err := g.enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leave()
			wait, longest := time.Since(began), min(firstWait<<n, longestWait)
			if wait < longest/2 || wait > longest {
				t.Errorf("after %d failures it waited %s, not %s to %s", n+1, wait, longest/2, longest)
			}
		}
		for asked, want := range map[time.Duration]time.Duration{20 * time.Second: 20 * time.Second, time.Hour: 30 * time.Second} {
			g.fail(asked)
			began := time.Now()
			leave, err := g.enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leave()
			if wait := time.Since(began); wait != want {
				t.Errorf("asked for %s it waited %s", asked, wait)
			}
		}
	})
}

// While the engine is away one worker asks at a time; when it is back, all go on.
func TestGateLetsOneProbeThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Now)
		g.fail(0)
		entered := make(chan func(), 4)
		for range 4 {
			go func() {
				if leave, err := g.enter(t.Context()); err == nil {
					entered <- leave
				}
			}()
		}
		time.Sleep(longestWait)
		synctest.Wait()
		if n := len(entered); n != 1 {
			t.Fatalf("%d workers ask an engine that is away", n)
		}
		g.succeed()
		(<-entered)()
		synctest.Wait()
		if n := len(entered); n != 3 {
			t.Errorf("%d of 3 workers went on", n)
		}
	})
}

// A wait ends with the context, at once.
func TestGateDoesNotSleepThroughAShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Now)
		g.fail(30 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := g.enter(ctx); err == nil || time.Since(began) != time.Second {
			t.Errorf("it came back after %s with %v", time.Since(began), err)
		}
	})
}

// An operator's word ends the wait.
func TestGateTriesNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Now)
		g.fail(30 * time.Second)
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			g.tryNow()
		}()
		leave, err := g.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave()
		if time.Since(began) != time.Second {
			t.Errorf("it waited %s", time.Since(began))
		}
	})
}

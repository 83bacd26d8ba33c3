package relay

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// firstWait and longestWait frame the pause after the engine was found away.
	// The longest is short, because what was queued meanwhile should arrive soon
	// after the engine is back; one probe in five seconds burdens nobody.
	firstWait   = 200 * time.Millisecond
	longestWait = 5 * time.Second
	// longestRetryAfter bounds what the engine may ask for.
	longestRetryAfter = 30 * time.Second
)

// gate holds all workers back while the engine is away, and lets one through at
// a time to see whether it is back.
type gate struct {
	now func() time.Time

	mu       sync.Mutex
	failures int
	outages  int // how often the gate was closed, ever
	until    time.Time
	probing  bool
	changed  chan struct{} // closed, and replaced, at each change
}

func newGate(now func() time.Time) *gate {
	return &gate{now: now, changed: make(chan struct{})}
}

// enter waits until the caller may ask the engine, or ctx ends. leave must be
// called afterwards, whatever came of it.
func (g *gate) enter(ctx context.Context) (leave func(), err error) {
	for ctx.Err() == nil {
		g.mu.Lock()
		if g.failures == 0 {
			g.mu.Unlock()
			return func() {}, nil
		}
		wait := g.until.Sub(g.now())
		if wait <= 0 && !g.probing {
			g.probing = true
			g.mu.Unlock()
			return g.endProbe, nil
		}
		changed := g.changed
		g.mu.Unlock()

		if wait <= 0 {
			wait = longestWait // somebody is asking; changed will tell
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil, ctx.Err()
}

// fail closes the gate for a while, longer each time in a row, at least for as
// long as the engine asked.
func (g *gate) fail(retryAfter time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.now().Add(min(retryAfter, longestRetryAfter))
	if g.now().Before(g.until) {
		// Another worker's call that was under way when the gate closed: the
		// same outage, not the next one.
		if asked.After(g.until) {
			g.until = asked
		}
		return
	}
	wait := min(firstWait<<min(g.failures, 10), longestWait)
	g.failures++
	g.outages++
	g.until = g.now().Add(wait/2 + rand.N(wait/2))
	if asked.After(g.until) {
		g.until = asked
	}
	g.change()
}

// succeed opens the gate.
func (g *gate) succeed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures > 0 {
		g.failures, g.until = 0, time.Time{}
		g.change()
	}
}

// outage changes each time that the gate is closed.
func (g *gate) outage() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.outages
}

// closed says whether the engine was away when it was last asked.
func (g *gate) closed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failures > 0
}

// tryNow ends a wait early, at an operator's word.
func (g *gate) tryNow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until = g.now()
	g.change()
}

func (g *gate) endProbe() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = false
	g.change()
}

func (g *gate) change() {
	close(g.changed)
	g.changed = make(chan struct{})
}

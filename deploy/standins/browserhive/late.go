package browserhive

import (
	"strings"
	"sync"
	"time"
)

// lateManifests holds manifests back until they are released or their time is
// up.
type lateManifests struct {
	mu   sync.Mutex
	held map[*heldManifest]struct{}
}

type heldManifest struct {
	release  chan struct{}
	released sync.Once
	written  chan struct{}
}

// hold runs write when released or after delay, whichever comes first.
func (l *lateManifests) hold(delay time.Duration, write func()) {
	held := &heldManifest{release: make(chan struct{}), written: make(chan struct{})}
	l.mu.Lock()
	if l.held == nil {
		l.held = map[*heldManifest]struct{}{}
	}
	l.held[held] = struct{}{}
	l.mu.Unlock()
	go func() {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-held.release:
		}
		write()
		l.mu.Lock()
		delete(l.held, held)
		l.mu.Unlock()
		close(held.written)
	}()
}

// release lets every held manifest go, waits until all are written and returns
// how many they were.
func (l *lateManifests) release() int {
	l.mu.Lock()
	all := make([]*heldManifest, 0, len(l.held))
	for held := range l.held {
		all = append(all, held)
	}
	l.mu.Unlock()
	for _, held := range all {
		held.released.Do(func() { close(held.release) })
	}
	for _, held := range all {
		<-held.written
	}
	return len(all)
}

// lateLocation tells where a held manifest will be, from where a sibling of
// its name already is: a capture's files share one folder.
func lateLocation(m manifest, c *capture) (string, bool) {
	name := c.name("wacz")
	location, stored := m.Artifacts["wacz"]
	folder, found := strings.CutSuffix(location, name)
	return folder + c.name("result.json"), stored && found
}

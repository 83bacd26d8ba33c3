package fetch

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// hosts keeps, per host, when the next request may be sent. It is what one
// process owes to a host; that one source is read by one process at a time is
// the scheduler's part.
type hosts struct {
	spacing time.Duration

	mu   sync.Mutex
	next map[string]time.Time
}

func newHosts(spacing time.Duration) *hosts {
	return &hosts{spacing: spacing, next: map[string]time.Time{}}
}

// reserve takes the next free moment at a host, unless it lies after latest;
// then nothing is taken and the moment is returned with false.
func (h *hosts) reserve(host string, now, latest time.Time) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	turn := now
	if next := h.next[host]; next.After(turn) {
		turn = next
	}
	if turn.After(latest) {
		return turn, false
	}
	h.next[host] = turn.Add(h.spacing)
	return turn, true
}

// hold sends nothing to a host before the given moment.
func (h *hosts) hold(host string, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.After(h.next[host]) {
		h.next[host] = until
	}
}

// takeTurn waits until the host may be asked.
func (c *Client) takeTurn(ctx context.Context, host string) error {
	now := c.now()
	turn, ok := c.hosts.reserve(host, now, now.Add(c.settings.MaxWait))
	if !ok {
		e := failed(0, "the host is not to be asked before %s", turn.UTC().Format(time.RFC3339))
		e.RetryAfter = turn
		return e
	}
	timer := time.NewTimer(turn.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return transportError(ctx.Err())
	}
}

// noteRetryAfter honours the header on any answer: some hosts send it with 200.
func (c *Client) noteRetryAfter(response *http.Response) {
	if until, ok := retryAfter(response, c.now()); ok {
		c.hosts.hold(response.Request.URL.Host, until)
	}
}

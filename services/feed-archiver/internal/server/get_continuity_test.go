package server

import (
	"testing"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// A gap says that nobody read; its cause is said only where something is known.
func TestTheCauseOfAGap(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		failed, alive int64
		want          string
	}{
		{1, 0, "feed_failed"},
		{3, 60, "feed_failed"},
		{0, 0, "archiver_not_running"},
		{0, 29, "archiver_not_running"},
		{0, 30, "unknown"},
		{0, 60, "unknown"},
	} {
		gap := store.Gap{StartedAt: began, EndedAt: began.Add(time.Hour), FailedReads: c.failed, MinutesAlive: c.alive}
		if got := cause(gap); got != c.want {
			t.Errorf("an hour with %d failed reads and %d minutes alive: %s, want %s", c.failed, c.alive, got, c.want)
		}
	}
}

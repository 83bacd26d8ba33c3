package relay_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/outbox-relay/internal/relay"
)

// While the engine is away every replica, also one that delivers nothing, says
// how many rows wait, and the age of the oldest rises.
func TestT31DepthAndAgeRise(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	registry := prometheus.NewRegistry()
	r, err := relay.New(s.queue, &failing{}, nil, quick(), registry, zap.NewNop(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s.insert(t, payload{Writes: []fga.Tuple{owner("alice", 1)}}, payload{Writes: []fga.Tuple{owner("alice", 2)}})
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(t.Context()) }()
	t.Cleanup(func() { <-done })

	metric := func(name string) (value float64) {
		page := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for line := range strings.Lines(page.Body.String()) {
			if rest, found := strings.CutPrefix(line, "muniment_relay_"+name+" "); found {
				_, _ = fmt.Sscan(rest, &value)
			}
		}
		return value
	}
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		return metric("waiting_rows") == 2 && metric(`held_total{reason="unavailable"}`) > 0, fmt.Sprint(metric("waiting_rows"))
	})
	age := metric("oldest_waiting_age_seconds")
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		now := metric("oldest_waiting_age_seconds")
		return age > 0 && now > age+0.5, fmt.Sprintf("from %f to %f", age, now)
	})
}

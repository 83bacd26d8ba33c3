// Package skew compares our clock with the object store's. A signer that is
// ahead makes URLs that are not valid yet, and one that is behind makes URLs
// that end early; neither shows on our side, so the difference is measured.
package skew

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

const (
	// every is how often the clocks are compared.
	every = time.Minute
	// tolerated is the difference beyond which the log warns.
	tolerated = 30 * time.Second
	// timeout bounds one look at the store.
	timeout = 5 * time.Second
)

// Watch measures and exports the difference.
type Watch struct {
	endpoint string
	client   *http.Client
	log      *zap.Logger
	now      func() time.Time

	seconds  prometheus.Gauge
	failures prometheus.Counter
}

// New watches the store at endpoint, its URL inside the cluster.
func New(endpoint string, metrics prometheus.Registerer, log *zap.Logger, now func() time.Time) *Watch {
	w := &Watch{
		endpoint: endpoint,
		client: &http.Client{
			Timeout:       timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		log: log,
		now: now,
		seconds: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muniment_signer_clock_skew_seconds",
			Help: "How far our clock is ahead of the object store's, at the last look.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_signer_clock_skew_failures_total",
			Help: "Looks at the object store's clock that failed.",
		}),
	}
	metrics.MustRegister(w.seconds, w.failures)
	return w
}

// Run compares the clocks until ctx ends. Signing does not wait for it.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		w.Look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Look compares the clocks once, exports the difference and warns about a large one.
func (w *Watch) Look(ctx context.Context) {
	skew, err := w.Measure(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.failures.Inc()
			w.log.Warn("comparing our clock with the object store's", zap.Error(err))
		}
		return
	}
	w.seconds.Set(skew.Seconds())
	if skew.Abs() > tolerated {
		w.log.Warn("our clock and the object store's differ: signed URLs are valid late or end early; check the time service of both",
			zap.Duration("ahead_by", skew), zap.Duration("tolerated", tolerated))
	}
}

// Measure returns how far our clock is ahead. The store tells whole seconds, so
// the middle of the second and of the call are compared. Any answer will do,
// a refusal too.
func (w *Watch) Measure(ctx context.Context) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, w.endpoint, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("forming the request: %w", err)
	}
	before := w.now()
	reply, err := w.client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("asking the object store: %w", err)
	}
	after := w.now()
	if err := reply.Body.Close(); err != nil {
		return 0, fmt.Errorf("closing the reply: %w", err)
	}
	date := reply.Header.Get("Date")
	if date == "" {
		return 0, errors.New("the object store's reply carries no Date")
	}
	theirs, err := http.ParseTime(date)
	if err != nil {
		return 0, fmt.Errorf("reading the object store's Date: %w", err)
	}
	ours := before.Add(after.Sub(before) / 2)
	return ours.Sub(theirs.Add(time.Second / 2)), nil
}

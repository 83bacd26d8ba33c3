package relay

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// observeEvery is how often the queue is counted.
const observeEvery = 5 * time.Second

type metrics struct {
	waiting, deadRows prometheus.Gauge
	// oldest is when the oldest waiting row was queued, in Unix nanoseconds, or
	// 0; its age goes on rising where the queue cannot be counted.
	oldest atomic.Int64

	delivered, retried, dead, requests prometheus.Counter
	held                               *prometheus.CounterVec
	seconds                            prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer, now func() time.Time) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "muniment_relay_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "muniment_relay_" + name, Help: help})
	}
	m := &metrics{
		waiting:   gauge("waiting_rows", "Rows queued and not delivered, without those set aside. The same from every replica."),
		deadRows:  gauge("dead_rows", "Rows set aside. The same from every replica."),
		delivered: counter("delivered_rows_total", "Rows delivered by this replica."),
		retried:   counter("retried_rows_total", "Refusals after which a row is tried again."),
		dead:      counter("dead_rows_total", "Rows that this replica set aside."),
		requests:  counter("requests_total", "Requests that the engine carried out."),
		held: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_relay_held_total",
			Help: "Requests that failed for a reason that no row is to blame for, by reason.",
		}, []string{"reason"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "muniment_relay_delivery_seconds",
			Help:    "From the begin of the transaction that queued a row to its delivery.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 1800, 7200, 86400},
		}),
	}
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_relay_oldest_waiting_age_seconds",
		Help: "Age of the oldest waiting row; 0 when none waits. Scale and alert on this, not on CPU.",
	}, func() float64 {
		oldest := m.oldest.Load()
		if oldest == 0 {
			return 0
		}
		return max(0, now().Sub(time.Unix(0, oldest)).Seconds())
	})
	for _, reason := range []string{"unavailable", "wrong_store_or_model"} {
		m.held.WithLabelValues(reason)
	}
	registry.MustRegister(m.waiting, m.deadRows, m.delivered, m.retried, m.dead, m.requests, m.held, m.seconds, age)
	return m
}

// observe counts the queue until ctx ends. Every replica does: no replica, no
// metric.
func (r *Relay) observe(ctx context.Context) {
	for ctx.Err() == nil {
		stats, err := r.outbox.Stats(ctx)
		switch {
		case err == nil:
			r.metrics.waiting.Set(float64(stats.Waiting))
			r.metrics.deadRows.Set(float64(stats.Dead))
			var oldest int64
			if stats.Oldest != nil {
				oldest = stats.Oldest.UnixNano()
			}
			r.metrics.oldest.Store(oldest)
		case ctx.Err() == nil:
			r.log.Warn("counting the queue", zap.Error(err))
		}
		r.sleep(ctx, observeEvery, nil)
	}
}

// validText drops what Postgres cannot store as text.
func validText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}

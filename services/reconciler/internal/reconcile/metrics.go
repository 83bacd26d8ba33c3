package reconcile

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the loop.
type Metrics struct {
	tries        *prometheus.CounterVec
	holes        prometheus.Gauge
	lastPass     prometheus.Gauge
	allForbidden prometheus.Gauge
}

// NewMetrics registers the loop's metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_reconciler_tries_total", Help: "Holes tried, by outcome: admitted, already, never, not_yet, unreadable.",
		}, []string{"outcome"}),
		holes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muniment_reconciler_holes", Help: "Holes that the ledger listed in the last whole pass.",
		}),
		lastPass: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muniment_reconciler_last_pass_timestamp_seconds", Help: "When the last whole pass ended.",
		}),
		allForbidden: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muniment_reconciler_all_forbidden", Help: "1 while the object store forbids every manifest: an alarm about rights.",
		}),
	}
	reg.MustRegister(m.tries, m.holes, m.lastPass, m.allForbidden)
	return m
}

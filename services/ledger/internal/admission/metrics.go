package admission

import "github.com/prometheus/client_golang/prometheus"

// Metrics count what became of manifests.
type Metrics struct {
	outcomes *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muniment_ledger_admissions_total",
		Help: "Manifests by outcome and by the path on which they came (level, registry).",
	}, []string{"path", "outcome"})}
	reg.MustRegister(m.outcomes)
	return m
}

func (m *Metrics) count(path string, outcome Outcome) {
	m.outcomes.WithLabelValues(path, string(outcome)).Inc()
}

package archive

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what this process wrote, per source.
type Metrics struct {
	reads, notModified, seen, fresh, bytes, writeFailures *prometheus.CounterVec
	failures                                              *prometheus.CounterVec
}

// NewMetrics registers the writer's metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muniment_feed_" + name, Help: help}, append([]string{"source"}, labels...))
		reg.MustRegister(c)
		return c
	}
	return &Metrics{
		reads:         counter("reads_total", "Reads stored, quiet and unchanged ones included."),
		notModified:   counter("reads_not_modified_total", "Reads stored that the server answered with 304."),
		seen:          counter("items_seen_total", "Distinct bodies that stored reads held."),
		fresh:         counter("items_new_total", "Bodies that were not in the archive yet."),
		bytes:         counter("bytes_total", "Bytes of the bodies of stored reads, decompressed."),
		failures:      counter("failed_reads_total", "Reads that held nothing we may keep, by the kind of reason.", "reason"),
		writeFailures: counter("archive_write_failures_total", "Reads and failed reads that the archive could not keep (logged as "+LogName+")."),
	}
}

func (m *Metrics) read(r Read, got Recorded) {
	m.reads.WithLabelValues(r.Source).Inc()
	if r.NotModified {
		m.notModified.WithLabelValues(r.Source).Inc()
	}
	m.seen.WithLabelValues(r.Source).Add(float64(got.Seen))
	m.fresh.WithLabelValues(r.Source).Add(float64(got.New))
	m.bytes.WithLabelValues(r.Source).Add(float64(r.Bytes))
}

func (m *Metrics) failed(f Failure) {
	m.failures.WithLabelValues(f.Source, reasonKind(f.HTTPStatus)).Inc()
}

func (m *Metrics) writeFailed(source string) { m.writeFailures.WithLabelValues(source).Inc() }

// reasonKind keeps the reason to a few words, because a metric's label must not
// hold free text.
func reasonKind(status int) string {
	switch {
	case status == 0:
		return "no_answer"
	case status == 429:
		return "too_many_requests"
	case status >= 500:
		return "server_error"
	case status >= 400:
		return "client_error"
	case status == 200:
		return "body"
	}
	return "status"
}

package archive_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/rights"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// What is stored and what fails is counted per source; failures by the kind of
// their reason.
func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	register := rights.Register{"demo": {StoragePermitted: true}, "closed": {}}
	w := archive.New(store.New(setup(t).feed), register, archive.NewMetrics(registry), zap.NewNop(), archive.InTests())
	record := func(r archive.Read) { _, _ = w.Record(t.Context(), r) }
	first := read(alerts(3, nil)...)
	first.Bytes = 1000
	record(first)
	second := read(alerts(3, map[int]bool{1: true})...)
	second.Bytes = 500
	record(second)
	record(archive.Read{Source: "demo", Request: "active", FetchedAt: time.Now(), HTTPStatus: 304, NotModified: true})
	record(read(item("a", "{")))
	refused := read()
	refused.Source = "closed"
	record(refused)
	for _, status := range []int{0, 301, 403, 429, 429, 503} {
		if err := w.RecordFailure(t.Context(), archive.Failure{Source: "demo", Request: "active", FetchedAt: time.Now(), HTTPStatus: status, Reason: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue()
		}
	}
	want := map[string]float64{
		"muniment_feed_reads_total demo": 3, "muniment_feed_reads_not_modified_total demo": 1,
		"muniment_feed_items_seen_total demo": 6, "muniment_feed_items_new_total demo": 4, "muniment_feed_bytes_total demo": 1500,
		"muniment_feed_failed_reads_total body demo": 1, "muniment_feed_failed_reads_total no_answer demo": 1,
		"muniment_feed_failed_reads_total status demo": 1, "muniment_feed_failed_reads_total client_error demo": 1,
		"muniment_feed_failed_reads_total too_many_requests demo": 2, "muniment_feed_failed_reads_total server_error demo": 1,
		"muniment_feed_archive_write_failures_total demo": 1, "muniment_feed_archive_write_failures_total closed": 1,
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s is %v, want %v", name, got[name], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

package archive_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/canonjson"
	"github.com/muniment/muniment/services/feed-archiver/internal/rights"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// BenchmarkReadOf480With3New holds a whole read against what its bytes cost
// anyway: parsing, canonicalising and hashing them, and one round trip. The
// metric x/own is how many times that it takes; two is the limit.
func BenchmarkReadOf480With3New(b *testing.B) {
	db := testkit.Postgres(b)
	pool := db.Pool(b, "feed")
	w := archive.New(store.New(pool), rights.Register{"demo": {StoragePermitted: true}}, archive.NewMetrics(prometheus.NewRegistry()), zap.NewNop(), archive.InTests())
	edition := 0
	next := func() archive.Read {
		edition++
		items := make([]archive.Item, 480)
		for i := range items {
			revision := 0
			if i < 3 {
				revision = edition
			}
			// About what an alert is: 4 KB of it text.
			body := fmt.Sprintf(`{"type":"Feature","id":"https://api.weather.gov/alerts/urn:%d.%d","geometry":{"type":"Polygon","coordinates":[[%s]]},"properties":{"id":"urn:%d.%d","sent":"2026-11-30T12:00:00-07:00","description":"%s"}}`,
				i, revision, strings.Repeat("[-100.25,35.5],", 40)+"[-100.25,35.5]", i, revision, strings.Repeat("FLOOD WARNING UNTIL TEN\\n", 120))
			items[i] = archive.Item{ProductID: fmt.Sprintf("urn:%d.%d", i, revision), Kind: archive.JSON, Body: []byte(body)}
		}
		return archive.Read{Source: "demo", Request: "active", FetchedAt: time.Now(), HTTPStatus: 200, Items: items}
	}
	if _, err := w.Record(b.Context(), next()); err != nil {
		b.Fatal(err)
	}
	var own, whole time.Duration
	for b.Loop() {
		read := next()
		began := time.Now()
		for _, item := range read.Items {
			canonical, err := canonjson.Canonical(item.Body)
			if err != nil {
				b.Fatal(err)
			}
			_ = sha256.Sum256(canonical)
		}
		if err := pool.Ping(context.WithoutCancel(b.Context())); err != nil {
			b.Fatal(err)
		}
		own += time.Since(began)
		began = time.Now()
		got, err := w.Record(b.Context(), read)
		if err != nil || got.New != 3 {
			b.Fatalf("%+v, %v", got, err)
		}
		whole += time.Since(began)
	}
	b.ReportMetric(float64(whole)/float64(own), "x/own")
	b.ReportMetric(float64(own.Milliseconds())/float64(b.N), "own-ms/op")
}

package skew_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/muniment/muniment/services/signer/internal/skew"
)

// storeAt answers as a store whose clock stands at that time.
func storeAt(t *testing.T, at time.Time) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", at.UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestT16SkewIsMeasured(t *testing.T) {
	t.Parallel()
	store := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, ahead := range []time.Duration{20 * time.Second, -45 * time.Second, 0} {
		w := skew.New(storeAt(t, store), prometheus.NewRegistry(), zap.NewNop(), func() time.Time { return store.Add(ahead) })
		got, err := w.Measure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if (got - ahead).Abs() > time.Second {
			t.Errorf("measured %s, want %s within a second", got, ahead)
		}
	}
}

func TestT16SkewIsExportedAndWarnedAbout(t *testing.T) {
	t.Parallel()
	store := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for ahead, warnings := range map[time.Duration]int{20 * time.Second: 0, 31 * time.Second: 1, -31 * time.Second: 1} {
		core, logs := observer.New(zapcore.WarnLevel)
		reg := prometheus.NewRegistry()
		w := skew.New(storeAt(t, store), reg, zap.New(core), func() time.Time { return store.Add(ahead) })
		w.Look(t.Context())
		if got := logs.Len(); got != warnings {
			t.Errorf("%s ahead: %d warnings, want %d", ahead, got, warnings)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		exported := false
		for _, f := range families {
			if f.GetName() == "muniment_signer_clock_skew_seconds" {
				got := time.Duration(f.GetMetric()[0].GetGauge().GetValue() * float64(time.Second))
				exported = (got - ahead).Abs() <= time.Second
			}
		}
		if !exported {
			t.Errorf("%s ahead: the metric says something else", ahead)
		}
	}
}

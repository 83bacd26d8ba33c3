package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/fga"
	signerpb "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
	"github.com/muniment/muniment/pkg/testkit"
)

// BenchmarkSigning sets signing (token, lookup, check, signature and a committed
// row, over mutual TLS) beside the bare check that it contains, through the same
// client of the engine. The goal is 0.75 of the bare rate.
func BenchmarkSigning(b *testing.B) {
	s := start(b, testkit.OpenFGA(b), map[string]string{"LOG_LEVEL": "error"}).ready(b)
	id := s.archive(b, "a.wacz", "x", "acme", "alice")
	client, ctx := s.as(b, "bob", "acme")
	sign := func() error {
		_, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id})
		return err
	}
	check := func() error {
		_, err := s.tuples.Check(context.Background(), fga.Query{
			Subject: "bob", Organizations: []string{"acme"}, Relation: "can_view", Object: fga.Archive(id), At: time.Now(), HighConsistency: true,
		})
		return err
	}
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var bare, signed series
			for b.Loop() {
				// Taking turns, so that what else the machine does weighs on both.
				bare.run(b, callers, check)
				signed.run(b, callers, sign)
				signed.run(b, callers, sign)
				bare.run(b, callers, check)
			}
			b.ReportMetric(bare.rate(), "checks/s")
			b.ReportMetric(bare.p99(), "check-p99-ms")
			b.ReportMetric(signed.rate(), "signed/s")
			b.ReportMetric(signed.p99(), "sign-p99-ms")
			b.ReportMetric(signed.rate()/bare.rate(), "signed/checks")
		})
	}
}

// series are the calls of one kind.
type series struct {
	took    []time.Duration
	elapsed time.Duration
}

// run makes a thousand calls, so many at once.
func (s *series) run(b *testing.B, callers int, call func() error) {
	b.Helper()
	took := make([]time.Duration, 1000)
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(took)); i = next.Add(1) - 1 {
				began := time.Now()
				if err := call(); err != nil {
					b.Error(err)
				}
				took[i] = time.Since(began)
			}
		})
	}
	all.Wait()
	s.elapsed += time.Since(began)
	s.took = append(s.took, took...)
}

func (s *series) rate() float64 { return float64(len(s.took)) / s.elapsed.Seconds() }

func (s *series) p99() float64 {
	slices.Sort(s.took)
	return float64(s.took[len(s.took)*99/100].Microseconds()) / 1000
}

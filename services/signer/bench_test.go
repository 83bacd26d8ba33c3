package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
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
	for _, concurrency := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("check/%d", concurrency), func(b *testing.B) { atOnce(b, concurrency, check) })
		b.Run(fmt.Sprintf("sign/%d", concurrency), func(b *testing.B) { atOnce(b, concurrency, sign) })
	}
}

// atOnce spreads b.N calls over that many callers and reports rate and p99.
func atOnce(b *testing.B, callers int, call func() error) {
	b.Helper()
	took := make([]time.Duration, b.N)
	next := make(chan int)
	var all sync.WaitGroup
	b.ResetTimer()
	for range callers {
		all.Go(func() {
			for i := range next {
				began := time.Now()
				if err := call(); err != nil {
					b.Error(err)
				}
				took[i] = time.Since(began)
			}
		})
	}
	for i := range b.N {
		next <- i
	}
	close(next)
	all.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

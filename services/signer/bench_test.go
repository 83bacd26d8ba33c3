package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/muniment/muniment/pkg/fga"
	signerpb "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
	"github.com/muniment/muniment/pkg/testkit"
)

// BenchmarkSigning sets signing (token, lookup, check, signature and a committed
// row, over mutual TLS) beside the bare check that it contains: asked over gRPC,
// the engine's own protocol, and over HTTP through the signer's client. The goal
// is 0.75 of the bare rate.
func BenchmarkSigning(b *testing.B) {
	s := start(b, testkit.OpenFGA(b), map[string]string{"LOG_LEVEL": "error"}).ready(b)
	id := s.archive(b, "a.wacz", "x", "acme", "alice")
	client, ctx := s.as(b, "bob", "acme")
	sign := func() error {
		_, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id})
		return err
	}
	overGRPC := s.bareCheck(b, id)
	overHTTP := func() error {
		_, err := s.tuples.Check(context.Background(), fga.Query{
			Subject: "bob", Organizations: []string{"acme"}, Relation: "can_view", Object: fga.Archive(id), At: time.Now(), HighConsistency: true,
		})
		return err
	}
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var bare, http, signed series
			for b.Loop() {
				// Taking turns, so that what else the machine does weighs on all.
				bare.run(b, callers, overGRPC)
				http.run(b, callers, overHTTP)
				signed.run(b, callers, sign)
				signed.run(b, callers, sign)
				http.run(b, callers, overHTTP)
				bare.run(b, callers, overGRPC)
			}
			b.ReportMetric(bare.rate(), "grpc-checks/s")
			b.ReportMetric(bare.p99(), "grpc-check-p99-ms")
			b.ReportMetric(http.rate(), "http-checks/s")
			b.ReportMetric(http.p99(), "http-check-p99-ms")
			b.ReportMetric(signed.rate(), "signed/s")
			b.ReportMetric(signed.p99(), "sign-p99-ms")
			b.ReportMetric(signed.rate()/bare.rate(), "signed/grpc-checks")
			b.ReportMetric(signed.rate()/http.rate(), "signed/http-checks")
		})
	}
}

// bareCheck asks what the signer asks, over one connection.
func (s *stack) bareCheck(b *testing.B, archiveID string) func() error {
	b.Helper()
	conn, err := grpc.NewClient(s.engine.GRPCAddress(b), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	engine := openfgav1.NewOpenFGAServiceClient(conn)
	return func() error {
		at, err := structpb.NewStruct(map[string]any{"current_time": fga.Timestamp(time.Now())})
		if err != nil {
			return err
		}
		reply, err := engine.Check(context.Background(), &openfgav1.CheckRequest{
			StoreId: s.engine.StoreID, AuthorizationModelId: s.engine.ModelID,
			TupleKey:         &openfgav1.CheckRequestTupleKey{User: "user:bob", Relation: "can_view", Object: fga.Archive(archiveID)},
			ContextualTuples: &openfgav1.ContextualTupleKeys{TupleKeys: []*openfgav1.TupleKey{{User: "user:bob", Relation: "member", Object: "organization:acme"}}},
			Context:          at,
			Consistency:      openfgav1.ConsistencyPreference_HIGHER_CONSISTENCY,
		})
		if err == nil && !reply.GetAllowed() {
			err = errors.New("the check says no")
		}
		return err
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

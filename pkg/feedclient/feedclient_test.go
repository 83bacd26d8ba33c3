package feedclient_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/muniment/muniment/pkg/feedclient"
	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
)

// archiver takes a stream and answers as it is told to.
type archiver struct {
	feedarchiverv1.UnimplementedRecordServiceServer
	items    chan int
	messages int
	answer   func(ctx context.Context) error
}

func (a *archiver) RecordRead(stream grpc.ClientStreamingServer[feedarchiverv1.RecordReadRequest, feedarchiverv1.RecordReadResponse]) error {
	if a.answer != nil {
		return a.answer(stream.Context())
	}
	n := 0
	for {
		msg, err := stream.Recv()
		if err != nil {
			break
		}
		a.messages++
		n += len(msg.GetItems().GetItems())
	}
	a.items <- n
	return stream.SendAndClose(&feedarchiverv1.RecordReadResponse{})
}

func setup(t *testing.T, a *archiver, settings feedclient.Settings) (*feedclient.Client, *observer.ObservedLogs) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	feedarchiverv1.RegisterRecordServiceServer(server, a)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	conn, err := grpc.NewClient("passthrough:///archiver", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	core, logs := observer.New(zap.InfoLevel)
	return feedclient.New(conn, settings, prometheus.NewRegistry(), zap.New(core)), logs
}

func read(items, size int) feedclient.Read {
	r := feedclient.Read{Source: "demo", Request: "all", FetchedAt: time.Now(), HTTPStatus: 200}
	for range items {
		r.Items = append(r.Items, feedclient.Item{ProductID: "p", Kind: feedclient.Text, Body: make([]byte, size)})
	}
	return r
}

func TestALargeReadGoesInSeveralMessages(t *testing.T) {
	t.Parallel()
	a := &archiver{items: make(chan int, 1)}
	c, logs := setup(t, a, feedclient.Settings{InTests: true})
	c.Record(t.Context(), read(50, 100<<10))
	if n := <-a.items; n != 50 || a.messages < 4 {
		t.Errorf("%d items in %d messages", n, a.messages)
	}
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
}

// A refusal, a panic inside and an archiver that never answers: the caller goes
// on within the bound, and one line tells.
func TestTheCallerGoesOn(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context) error{
		"refused": func(context.Context) error { return status.Error(codes.PermissionDenied, "not yours") },
		"silent":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, logs := setup(t, &archiver{answer: answer}, feedclient.Settings{InTests: true, Bound: 300 * time.Millisecond})
			began := time.Now()
			c.Record(t.Context(), read(20, 1<<20))
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("the caller waited %s", took)
			}
			if logs.FilterMessage(feedclient.LogName).Len() != 1 {
				t.Errorf("logged %v", logs.All())
			}
			c.RecordFailure(t.Context(), feedclient.Failure{Source: "demo", Request: "all", FetchedAt: time.Now(), Reason: "x"})
		})
	}
}

func TestDisabledUnderTest(t *testing.T) {
	t.Parallel()
	c, logs := setup(t, &archiver{items: make(chan int, 1)}, feedclient.Settings{})
	c.Record(t.Context(), read(1, 1))
	lines := logs.FilterMessage(feedclient.LogName).All()
	if len(lines) != 1 || lines[0].ContextMap()["error"] != "archive disabled under test" {
		t.Errorf("logged %v", lines)
	}
}

func TestAnItemWithoutAKindAbortsTheStream(t *testing.T) {
	t.Parallel()
	a := &archiver{items: make(chan int, 1)}
	c, logs := setup(t, a, feedclient.Settings{InTests: true})
	r := read(2, 1)
	r.Items[1].Kind = 0
	c.Record(t.Context(), r)
	if logs.FilterMessage(feedclient.LogName).Len() != 1 {
		t.Errorf("logged %v", logs.All())
	}
}

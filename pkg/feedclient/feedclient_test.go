package feedclient_test

import (
	"context"
	"fmt"
	"net"
	"strings"
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
	core, logs := observer.New(zap.InfoLevel)
	return feedclient.New(connect(t, a), settings, prometheus.NewRegistry(), zap.New(core)), logs
}

// connect serves the archiver in this process.
func connect(t *testing.T, a *archiver) grpc.ClientConnInterface {
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
	return conn
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
	c, logs := setup(t, a, feedclient.Settings{InTests: true, Bound: time.Minute})
	c.Record(t.Context(), read(50, 100<<10))
	if n := <-a.items; n != 50 || a.messages < 4 {
		t.Errorf("%d items in %d messages", n, a.messages)
	}
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
}

// A refusal, a panic inside, an archiver that never answers, that takes nothing,
// or that is not there: the caller goes on within the bound, whatever became of
// his own context, and one line and one count tell of each call.
func TestTheCallerGoesOn(t *testing.T) {
	t.Parallel()
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		answer func(context.Context) error
		conn   grpc.ClientConnInterface // in place of one to the archiver
		ended  bool                     // the caller's own context has
		size   int                      // of each of 20 items
		says   string
	}{
		"refused":                {answer: func(context.Context) error { return status.Error(codes.PermissionDenied, "not yours") }, says: "not yours"},
		"silent":                 {answer: silent, size: 1 << 20, says: "DeadlineExceeded"},
		"the caller has ended":   {answer: silent, ended: true, says: "DeadlineExceeded"},
		"a panic inside":         {conn: nil, answer: nil, says: "panic"},
		"an address of nobody's": {conn: unreachable(t), says: "Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const bound = 500 * time.Millisecond
			core, logs := observer.New(zap.InfoLevel)
			registry := prometheus.NewRegistry()
			conn := c.conn
			if c.answer != nil {
				conn = connect(t, &archiver{answer: c.answer})
			}
			client := feedclient.New(conn, feedclient.Settings{InTests: true, Bound: bound}, registry, zap.New(core))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.ended {
				cancel()
			}
			began := time.Now()
			client.Record(ctx, read(20, c.size))
			client.RecordFailure(ctx, feedclient.Failure{Source: "demo", Request: "all", FetchedAt: time.Now(), Reason: "x"})
			// Twice the bound, and what a busy machine adds.
			if took := time.Since(began); took > 2*bound+2*time.Second {
				t.Errorf("the caller waited %s", took)
			}
			lines := logs.FilterMessage(feedclient.LogName).All()
			if len(lines) != 2 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), c.says) ||
				lines[0].ContextMap()["source"] != "demo" || lines[0].ContextMap()["request"] != "all" {
				t.Errorf("logged %v, want two lines with %q", lines, c.says)
			}
			families, err := registry.Gather()
			if err != nil || len(families) != 1 || families[0].GetMetric()[0].GetCounter().GetValue() != 2 {
				t.Errorf("counted %v, %v; want 2 failures", families, err)
			}
		})
	}
}

// unreachable is a connection to an address where nobody listens any more.
func unreachable(t *testing.T) grpc.ClientConnInterface {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
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

package grpcx

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"

	"github.com/muniment/muniment/pkg/telemetry"
)

// resolveEvery is how often a client looks its names up again: a new replica
// gets its share within this time, whether or not a connection broke.
const resolveEvery = 10 * time.Second

// Dial prepares a client of the named service at target, a comma-separated list
// of host:port. Every name is resolved to all its addresses, freshly and again
// every ten seconds, and calls go round-robin over all of them. It does not
// wait for a connection.
func Dial(target, service string, files TLSFiles) (*grpc.ClientConn, error) {
	tlsConfig, err := files.Client(service)
	if err != nil {
		return nil, err
	}
	for hostPort := range strings.SplitSeq(target, ",") {
		if _, _, err := net.SplitHostPort(hostPort); err != nil {
			return nil, fmt.Errorf("the address of %s must be host:port, or several with commas between: %w", service, err)
		}
	}
	conn, err := grpc.NewClient(
		"muniment:///"+target,
		grpc.WithTransportCredentials(credentials.NewTLS(tlsConfig)),
		grpc.WithResolvers(freshResolver{}),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(sendRequestID(ctx), method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return stream(sendRequestID(ctx), desc, cc, method, opts...)
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("preparing the client of %s: %w", service, err)
	}
	return conn, nil
}

func sendRequestID(ctx context.Context) context.Context {
	if id := telemetry.RequestID(ctx); id != "" {
		return metadata.AppendToOutgoingContext(ctx, strings.ToLower(telemetry.RequestIDHeader), id)
	}
	return ctx
}

// freshResolver resolves a comma-separated list of host:port.
type freshResolver struct{}

func (freshResolver) Scheme() string { return "muniment" }

func (freshResolver) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{hosts: strings.Split(target.Endpoint(), ","), cc: cc, cancel: cancel, now: make(chan struct{}, 1)}
	w.done.Add(1)
	go w.watch(ctx)
	return w, nil
}

type watcher struct {
	hosts  []string
	cc     resolver.ClientConn
	cancel context.CancelFunc
	now    chan struct{}
	done   sync.WaitGroup
}

func (w *watcher) watch(ctx context.Context) {
	defer w.done.Done()
	for {
		w.resolve(ctx)
		// A broken connection asks at once; a second's pause bounds the rate.
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(resolveEvery):
		case <-w.now:
		}
	}
}

func (w *watcher) resolve(ctx context.Context) {
	var state resolver.State
	var failed error
	for _, hostPort := range w.hosts {
		host, port, err := net.SplitHostPort(hostPort)
		if err != nil {
			failed = err
			continue
		}
		lookup, cancel := context.WithTimeout(ctx, 5*time.Second)
		addrs, err := net.DefaultResolver.LookupHost(lookup, host)
		cancel()
		if err != nil {
			failed = err
			continue
		}
		for _, a := range addrs {
			state.Addresses = append(state.Addresses, resolver.Address{Addr: net.JoinHostPort(a, port)})
		}
	}
	if len(state.Addresses) == 0 {
		w.cc.ReportError(fmt.Errorf("resolving %s: %w", strings.Join(w.hosts, ","), failed))
		return
	}
	_ = w.cc.UpdateState(state)
}

func (w *watcher) ResolveNow(resolver.ResolveNowOptions) {
	select {
	case w.now <- struct{}{}:
	default:
	}
}

func (w *watcher) Close() {
	w.cancel()
	w.done.Wait()
}

package grpcx_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/grpcx"
	signerv1 "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/pkg/testkit"
)

// signer is a service with one method, whose behaviour each test sets.
type signer struct {
	signerv1.UnimplementedSignerServiceServer
	calls atomic.Int64
	sign  func(ctx context.Context) error
}

func (s *signer) SignArchive(ctx context.Context, _ *signerv1.SignArchiveRequest) (*signerv1.SignArchiveResponse, error) {
	s.calls.Add(1)
	if s.sign != nil {
		if err := s.sign(ctx); err != nil {
			return nil, err
		}
	}
	return &signerv1.SignArchiveResponse{}, nil
}

type bundle struct {
	certs   testkit.Certs
	service *signer
	address string
	stop    context.CancelFunc
	stopped chan error
}

// setup runs a server whose method the ledger's certificate may call.
func setup(t *testing.T, certs testkit.Certs, change func(*grpcx.ServerSettings)) *bundle {
	t.Helper()
	settings := grpcx.ServerSettings{
		Address:          testkit.FreeAddress(t),
		TLS:              certs.Files("signer"),
		Callers:          grpcx.Callers{signerv1.SignerService_SignArchive_FullMethodName: {"ledger"}},
		CheckEvery:       10 * time.Millisecond,
		MaxConnectionAge: time.Minute,
		DrainDelay:       200 * time.Millisecond,
		ShutdownTimeout:  2 * time.Second,
	}
	if change != nil {
		change(&settings)
	}
	srv, err := grpcx.NewServer(settings, prometheus.NewRegistry(), zaptest.NewLogger(t))
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{certs: certs, service: &signer{}, address: settings.Address, stopped: make(chan error, 1)}
	signerv1.RegisterSignerServiceServer(srv, b.service)
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.stopped <- srv.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

func (b *bundle) dial(t *testing.T, target, as string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpcx.Dial(target, "signer", b.certs.Files(as))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const anID = "5d20d20c-9831-4b3a-9b9b-5b62d72f22c0"

func call(ctx context.Context, conn *grpc.ClientConn, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	opts = append(opts, grpc.WaitForReady(true))
	_, err := signerv1.NewSignerServiceClient(conn).SignArchive(ctx, &signerv1.SignArchiveRequest{ArchiveId: anID}, opts...)
	return err
}

func TestOnlyListedCallersMayCall(t *testing.T) {
	t.Parallel()
	certs := testkit.Certificates(t)
	b := setup(t, certs, nil)
	if err := call(t.Context(), b.dial(t, b.address, "ledger")); err != nil {
		t.Fatal(err)
	}
	err := call(t.Context(), b.dial(t, b.address, "reconciler"))
	if status.Code(err) != codes.PermissionDenied || b.service.calls.Load() != 1 {
		t.Fatalf("%v after %d calls", err, b.service.calls.Load())
	}
	stranger := &bundle{certs: testkit.Certificates(t)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = signerv1.NewSignerServiceClient(stranger.dial(t, b.address, "ledger")).SignArchive(ctx, &signerv1.SignArchiveRequest{ArchiveId: anID})
	if err == nil || b.service.calls.Load() != 1 {
		t.Fatal("a certificate of another CA got through")
	}
}

// A client that means the signer does not talk to the ledger.
func TestClientChecksWhoAnswers(t *testing.T) {
	t.Parallel()
	certs := testkit.Certificates(t)
	b := setup(t, certs, func(s *grpcx.ServerSettings) { s.TLS = certs.Files("ledger") })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := signerv1.NewSignerServiceClient(b.dial(t, b.address, "ledger")).SignArchive(ctx, &signerv1.SignArchiveRequest{ArchiveId: anID})
	if status.Code(err) != codes.Unavailable || b.service.calls.Load() != 0 {
		t.Fatalf("got %v", err)
	}
}

func TestIdentityComesBeforeShape(t *testing.T) {
	t.Parallel()
	certs := testkit.Certificates(t)
	known := atomic.Bool{}
	b := setup(t, certs, func(s *grpcx.ServerSettings) {
		s.Authenticate = func(ctx context.Context, _ string) (context.Context, error) {
			if !known.Load() {
				return nil, status.Error(codes.Unauthenticated, "unauthenticated")
			}
			return ctx, nil
		}
	})
	client := signerv1.NewSignerServiceClient(b.dial(t, b.address, "ledger"))
	bad := &signerv1.SignArchiveRequest{ArchiveId: "not a uuid"}
	if _, err := client.SignArchive(t.Context(), bad, grpc.WaitForReady(true)); status.Code(err) != codes.Unauthenticated {
		t.Fatalf("got %v", err)
	}
	known.Store(true)
	_, err := client.SignArchive(t.Context(), bad)
	if status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(status.Convert(err).Message(), "archiveId: ") {
		t.Fatalf("got %v", err)
	}
}

func TestPanicAndUnknownErrorsSayNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, testkit.Certificates(t), nil)
	conn := b.dial(t, b.address, "ledger")
	for name, sign := range map[string]func(context.Context) error{
		"panic": func(context.Context) error { panic("SELECT hush") },
		"error": func(context.Context) error { return errors.New("SELECT hush") },
	} {
		b.service.sign = sign
		if st := status.Convert(call(t.Context(), conn)); st.Code() != codes.Internal || st.Message() != "internal error" {
			t.Errorf("%s: told %v", name, st)
		}
	}
}

func TestRequestIDCrossesServices(t *testing.T) {
	t.Parallel()
	b := setup(t, testkit.Certificates(t), nil)
	conn := b.dial(t, b.address, "ledger")
	var seen atomic.Value
	b.service.sign = func(ctx context.Context) error { seen.Store(telemetry.RequestID(ctx)); return nil }
	var header metadata.MD
	if err := call(telemetry.WithRequestID(t.Context(), "abc-1"), conn, grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	if seen.Load() != "abc-1" || header.Get("x-request-id")[0] != "abc-1" {
		t.Fatalf("saw %v, answered %v", seen.Load(), header)
	}
	if err := call(telemetry.WithRequestID(t.Context(), "a\nforged line"), conn); err == nil && strings.Contains(seen.Load().(string), "forged") {
		t.Fatal("took over an id that writes into logs")
	}
}

// T46: not ready first, then no new calls, and none of those under way fails.
func TestT46ShutdownUnderLoadFailsNoCall(t *testing.T) {
	t.Parallel()
	certs := testkit.Certificates(t)
	first, second := setup(t, certs, nil), setup(t, certs, nil)
	conn := first.dial(t, first.address+","+second.address, "ledger")
	slow := func(context.Context) error { time.Sleep(5 * time.Millisecond); return nil }
	first.service.sign, second.service.sign = slow, slow
	stopAt := time.Now().Add(2 * time.Second)
	failed := make(chan error, 8)
	for range 8 {
		go func() {
			for time.Now().Before(stopAt) {
				if err := call(t.Context(), conn); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	testkit.Eventually(t, 5*time.Second, func() (bool, string) {
		return first.service.calls.Load() > 20 && second.service.calls.Load() > 20, "waiting for both replicas to get their share"
	})
	first.stop()
	for range 8 {
		if err := <-failed; err != nil {
			t.Fatalf("a call failed: %v", err)
		}
	}
	if err := <-first.stopped; err != nil {
		t.Fatal(err)
	}
}

// T46: a call that never ends does not hold the shutdown beyond its limit.
func TestT46ShutdownEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	b := setup(t, testkit.Certificates(t), nil)
	release := make(chan struct{})
	defer close(release)
	b.service.sign = func(ctx context.Context) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}
	go func() { _ = call(context.Background(), b.dial(t, b.address, "ledger")) }()
	testkit.Eventually(t, 5*time.Second, func() (bool, string) { return b.service.calls.Load() == 1, "waiting for the call" })
	start := time.Now()
	b.stop()
	if err := <-b.stopped; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Fatalf("the limit is 2s, it took %s", took)
	}
}

func TestHealthFollowsTheChecks(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	b := setup(t, testkit.Certificates(t), func(s *grpcx.ServerSettings) {
		s.Checks = []grpcx.Check{{Name: "database", Run: func(context.Context) error {
			if broken.Load() {
				return errors.New("schema ledger is at version 1, this service wants 3")
			}
			return nil
		}}}
	})
	health := healthpb.NewHealthClient(b.dial(t, b.address, "reconciler"))
	serving := func(want healthpb.HealthCheckResponse_ServingStatus) func() (bool, string) {
		return func() (bool, string) {
			reply, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
			return err == nil && reply.GetStatus() == want, "waiting for " + want.String()
		}
	}
	testkit.Eventually(t, 5*time.Second, serving(healthpb.HealthCheckResponse_NOT_SERVING))
	broken.Store(false)
	testkit.Eventually(t, 5*time.Second, serving(healthpb.HealthCheckResponse_SERVING))
	broken.Store(true)
	testkit.Eventually(t, 5*time.Second, serving(healthpb.HealthCheckResponse_NOT_SERVING))
}

func TestAllowListOfUnknownMethodIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, testkit.Certificates(t), func(s *grpcx.ServerSettings) {
		s.Callers = grpcx.Callers{"/muniment.signer.v1.SignerService/Typo": {"ledger"}}
	})
	if err := <-b.stopped; err == nil || !strings.Contains(err.Error(), "Typo") {
		t.Fatalf("got %v", err)
	}
}

// What stands on the page of readiness and in the log is one line, whatever a
// driver spreads its error over.
func TestNotReadyIsOneLine(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.WarnLevel)
	settings := grpcx.ServerSettings{
		Address: testkit.FreeAddress(t), TLS: testkit.Certificates(t).Files("signer"), CheckEvery: 10 * time.Millisecond,
		MaxConnectionAge: time.Minute, ShutdownTimeout: time.Second,
		Checks: []grpcx.Check{{Name: "database", Run: func(context.Context) error {
			return errors.New("cannot connect:\n\t127.0.0.1:1: refused\n\t[::1]:1: refused")
		}}},
	}
	srv, err := grpcx.NewServer(settings, prometheus.NewRegistry(), zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- srv.Run(ctx) }()
	const want = "database: cannot connect: 127.0.0.1:1: refused [::1]:1: refused"
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		return srv.Ready().Error() == want, srv.Ready().Error()
	})
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	lines := logged.FilterMessage("not ready").All()
	if len(lines) != 1 || lines[0].ContextMap()["error"] != want {
		t.Errorf("the log says %v", lines)
	}
}

func TestATakenAddressNamesItsSetting(t *testing.T) {
	t.Parallel()
	certs := testkit.Certificates(t)
	taken := setup(t, certs, nil).address
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		conn, err := net.Dial("tcp", taken)
		if err != nil {
			return false, err.Error()
		}
		return conn.Close() == nil, ""
	})
	srv, err := grpcx.NewServer(grpcx.ServerSettings{Address: taken, TLS: certs.Files("signer")}, prometheus.NewRegistry(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	err = srv.Run(t.Context())
	if setting, ok := errors.AsType[*config.SettingError](err); !ok || setting.Setting != "GRPC_ADDRESS" || !strings.Contains(err.Error(), taken) {
		t.Errorf("%v", err)
	}
}

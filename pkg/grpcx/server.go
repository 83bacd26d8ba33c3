package grpcx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"buf.build/go/protovalidate"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/muniment/muniment/pkg/config"
)

// MaxMessageBytes bounds one message between services: a JSON body of 32 MiB
// and what its protobuf form may add.
const MaxMessageBytes = 33 << 20

// Callers names, for each full method, the identities that may call it. A
// method that is not listed is open to nobody; the standard health service and
// reflection are open to every certificate of our CA.
type Callers map[string][]string

// Check is one dependency of a service's deep health. It returns nil, or one
// line that says what is missing and what to do.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
}

// ServerSettings is what Server needs to know.
type ServerSettings struct {
	// Address to listen on, host:port.
	Address string
	TLS     TLSFiles
	Callers Callers
	// Checks are asked every CheckEvery (default 2 s), each with a limit of 3 s.
	Checks     []Check
	CheckEvery time.Duration
	// MaxConnectionAge bounds a connection's life; DrainDelay is served after
	// the service said that it is not ready; ShutdownTimeout bounds it all.
	MaxConnectionAge time.Duration
	DrainDelay       time.Duration
	ShutdownTimeout  time.Duration
	// Authenticate, where set, runs before a request's shape is looked at:
	// identity, then shape, then authorization. It may put the identity into
	// the context it returns.
	Authenticate func(ctx context.Context, fullMethod string) (context.Context, error)
}

// Server is a gRPC server with the policies of this package.
type Server struct {
	*grpc.Server
	settings ServerSettings
	log      *zap.Logger
	health   *health.Server

	mu       sync.Mutex
	notReady error
	draining bool
}

// NewServer builds a server. Register services on it, then call Run.
func NewServer(settings ServerSettings, metrics prometheus.Registerer, log *zap.Logger) (*Server, error) {
	tlsConfig, err := settings.TLS.Server()
	if err != nil {
		return nil, err
	}
	validator, err := protovalidate.New()
	if err != nil {
		return nil, fmt.Errorf("preparing request validation: %w", err)
	}
	if settings.CheckEvery <= 0 {
		settings.CheckEvery = 2 * time.Second
	}
	s := &Server{
		settings: settings,
		log:      log,
		health:   health.NewServer(),
		notReady: errors.New("starting"),
	}
	calls := newCallMetrics(metrics)
	chain := interceptors{log: log, metrics: calls, callers: settings.Callers, authenticate: settings.Authenticate, validator: validator}
	s.Server = grpc.NewServer(
		grpc.Creds(credentials.NewTLS(tlsConfig)),
		grpc.StatsHandler(otelgrpc.NewServerHandler()),
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      settings.MaxConnectionAge,
			MaxConnectionAgeGrace: 30 * time.Second,
			Time:                  30 * time.Second,
			Timeout:               10 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(chain.unary),
		grpc.ChainStreamInterceptor(chain.stream),
	)
	healthpb.RegisterHealthServer(s.Server, s.health)
	reflection.Register(s.Server)
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	return s, nil
}

// Ready returns nil, or one line that says why the service is not ready.
func (s *Server) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notReady
}

// Run listens and serves until ctx ends, then shuts down: not ready first,
// serving on for DrainDelay, then waiting for calls in flight, and at
// ShutdownTimeout closing what is left. It returns nil after a clean stop.
func (s *Server) Run(ctx context.Context) error {
	for method := range s.settings.Callers {
		if !s.registered(method) {
			return fmt.Errorf("the allow list names the unknown method %s", method)
		}
	}
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.settings.Address)
	if err != nil {
		return &config.SettingError{Setting: "GRPC_ADDRESS", Err: fmt.Errorf("choose a free address: %w", err)}
	}
	checksDone := make(chan struct{})
	checkCtx, stopChecks := context.WithCancel(ctx)
	go func() {
		defer close(checksDone)
		s.watchHealth(checkCtx)
	}()
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	s.log.Info("serving", zap.String("grpc_address", lis.Addr().String()))

	select {
	case err = <-served:
		stopChecks()
		<-checksDone
		return fmt.Errorf("serving gRPC: %w", err)
	case <-ctx.Done():
	}
	stopChecks()
	<-checksDone
	s.shutdown()
	return nil
}

// SayNotReady tells balancers that this server goes away, and serves on. Run
// says it by itself; it is called earlier where something in front of the
// server, in the same process, has to drain first.
func (s *Server) SayNotReady() {
	s.mu.Lock()
	s.draining, s.notReady = true, errors.New("shutting down")
	s.mu.Unlock()
	s.health.Shutdown()
}

func (s *Server) shutdown() {
	deadline := time.NewTimer(s.settings.ShutdownTimeout)
	defer deadline.Stop()
	s.SayNotReady()
	s.log.Info("draining", zap.Duration("delay", s.settings.DrainDelay), zap.Duration("limit", s.settings.ShutdownTimeout))
	time.Sleep(s.settings.DrainDelay)

	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.GracefulStop()
	}()
	select {
	case <-drained:
		s.log.Info("stopped")
	case <-deadline.C:
		s.log.Warn("calls still in flight at the shutdown limit; closing them")
		s.Stop()
		<-drained
	}
}

// watchHealth runs the checks until ctx ends. The log says what changed, once.
func (s *Server) watchHealth(ctx context.Context) {
	tick := time.NewTicker(s.settings.CheckEvery)
	defer tick.Stop()
	for {
		s.setReady(s.check(ctx))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Server) check(ctx context.Context) error {
	for _, c := range s.settings.Checks {
		checkCtx, cancel := context.WithTimeout(ctx, 3*time.Second)
		err := c.Run(checkCtx)
		cancel()
		if err != nil {
			return &notReadyError{check: c.Name, err: err}
		}
	}
	return nil
}

// notReadyError is one line, whatever the check's error was spread over: it
// stands in the log, on the health page and in what an operator is told.
type notReadyError struct {
	check string
	err   error
}

func (e *notReadyError) Error() string {
	return e.check + ": " + strings.Join(strings.Fields(e.err.Error()), " ")
}

// Unwrap returns the check's error.
func (e *notReadyError) Unwrap() error { return e.err }

func (s *Server) setReady(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return
	}
	was := s.notReady
	s.notReady = err
	switch {
	case err == nil && was != nil:
		s.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
		s.log.Info("ready")
	case err != nil && (was == nil || was.Error() != err.Error()):
		s.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		s.log.Warn("not ready", zap.Error(err))
	}
}

func (s *Server) registered(fullMethod string) bool {
	for service, info := range s.GetServiceInfo() {
		if slices.ContainsFunc(info.Methods, func(m grpc.MethodInfo) bool { return "/"+service+"/"+m.Name == fullMethod }) {
			return true
		}
	}
	return false
}

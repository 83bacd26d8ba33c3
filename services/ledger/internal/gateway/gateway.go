// Package gateway is the HTTP side of the gRPC services: it transcodes by their
// google.api.http annotations and has no logic of its own. A route exists
// because a service that was handed to New is annotated with it, or because it
// is a plain route (an upload, a file); any other path is unknown.
//
// The order of decisions is fixed: route, identity, shape, then the call. What
// the contract's strict JSON demands is in decode.go and encode.go; rules on
// values stand in the protobuf contract and are checked by the service.
package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/muniment/muniment/pkg/identity"
)

// Settings is what the gateway needs to know.
type Settings struct {
	// Address is where the gateway listens, host:port. It speaks plain HTTP: what
	// stands in front of it ends TLS.
	Address string
	// RequestTimeout bounds one call behind a request.
	RequestTimeout time.Duration
	// DrainDelay is served after the gateway said that it is not ready;
	// ShutdownTimeout bounds all of the way down.
	DrainDelay      time.Duration
	ShutdownTimeout time.Duration
}

// Backend is a service process whose annotated methods become routes.
type Backend struct {
	// Name is told to callers when it does not answer.
	Name     string
	Conn     grpc.ClientConnInterface
	Services []protoreflect.ServiceDescriptor
}

// Plain is a route that is no transcoding. Its handler looks after identity
// itself, reads path values by their name in Path, each decoded exactly once,
// and answers errors with WriteError.
type Plain struct {
	Method  string
	Path    string
	Handler http.Handler
}

type verifier interface {
	Verify(ctx context.Context, c identity.Credentials) (identity.Identity, error)
}

// Gateway is an HTTP server over gRPC services.
type Gateway struct {
	settings Settings
	verifier verifier
	log      *zap.Logger
	router   *router
	seconds  *prometheus.HistogramVec
	state    drain
}

// New builds the routes. It fails where a contract asks for something that the
// gateway does not speak, so that a wrong annotation is found at start.
func New(backends []Backend, plain []Plain, verifier verifier, settings Settings, metrics prometheus.Registerer, log *zap.Logger) (*Gateway, error) {
	g := &Gateway{
		settings: settings,
		verifier: verifier,
		log:      log,
		router:   newRouter(),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "muniment_http_server_seconds",
			Help:    "Duration of HTTP requests, by route, method and status.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"route", "method", "status"}),
	}
	for _, backend := range backends {
		for _, service := range backend.Services {
			if err := g.addService(backend, service); err != nil {
				return nil, fmt.Errorf("building the routes of %s: %w", service.FullName(), err)
			}
		}
	}
	for _, p := range plain {
		if _, err := g.router.add(p.Method, p.Path, p.Handler); err != nil {
			return nil, err
		}
	}
	g.router.finish()
	metrics.MustRegister(g.seconds)
	return g, nil
}

func (g *Gateway) addService(backend Backend, service protoreflect.ServiceDescriptor) error {
	for i := range service.Methods().Len() {
		method := service.Methods().Get(i)
		t, err := newTranscoder(g, backend, method)
		if err != nil {
			return fmt.Errorf("%s: %w", method.Name(), err)
		}
		if t == nil {
			continue
		}
		params, err := g.router.add(t.httpMethod, t.path, t)
		if err != nil {
			return fmt.Errorf("%s: %w", method.Name(), err)
		}
		if err := t.bind(params); err != nil {
			return fmt.Errorf("%s: %w", method.Name(), err)
		}
	}
	return nil
}

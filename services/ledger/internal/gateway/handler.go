package gateway

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/pkg/telemetry"
)

// ServeHTTP is what stands around every request: request id, panic guard, one
// log line, one measurement.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	id := r.Header.Get(telemetry.RequestIDHeader)
	if !telemetry.ValidRequestID(id) {
		id = telemetry.NewRequestID()
	}
	ctx := telemetry.WithRequestID(r.Context(), id)
	ctx = otel.GetTextMapPropagator().Extract(ctx, propagation.HeaderCarrier(r.Header))
	reply := &response{ResponseWriter: w}
	reply.Header().Set(telemetry.RequestIDHeader, id)
	reply.Header().Set("X-Content-Type-Options", "nosniff")
	if g.state.draining() {
		// Told on a reply, the client does not send its next request into a
		// connection that is about to close.
		reply.Header().Set("Connection", "close")
	}
	r = r.WithContext(ctx)
	defer func() {
		if panicked := recover(); panicked != nil {
			if panicked == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(panicked)
			}
			g.log.Error("panic", zap.Any("panic", panicked), zap.ByteString("stack", debug.Stack()), zap.String("request_id", id))
			reply.fail(r, rpcerr.Internal(fmt.Errorf("panic: %v", panicked)))
		}
		g.finish(reply, r, time.Since(start))
	}()
	g.router.ServeHTTP(reply, r)
}

func (g *Gateway) finish(reply *response, r *http.Request, elapsed time.Duration) {
	// The route's template and not the path: what a caller makes up must not
	// become a label, and a path may hold what a log line should not.
	route := reply.route
	if route == "" {
		route = "unknown"
	}
	method := r.Method
	if reply.status == http.StatusMethodNotAllowed || reply.route == "" {
		method = "other"
	}
	g.seconds.WithLabelValues(route, method, strconv.Itoa(reply.status)).Observe(elapsed.Seconds())
	fields := []zap.Field{
		zap.String("route", route), zap.String("method", method), zap.Int("status", reply.status),
		zap.Duration("elapsed", elapsed), zap.String("request_id", telemetry.RequestID(r.Context())),
	}
	if reply.cause != nil {
		fields = append(fields, zap.NamedError("cause", reply.cause))
	}
	switch {
	case reply.status >= http.StatusInternalServerError:
		g.log.Error("request", fields...)
	case reply.status >= http.StatusBadRequest:
		g.log.Warn("request", fields...)
	default:
		g.log.Info("request", fields...)
	}
}

// response remembers what the log line needs.
type response struct {
	http.ResponseWriter
	route  string
	status int
	cause  error
}

// WriteHeader notes the status.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// fail answers an error unless an answer has already begun.
func (w *response) fail(r *http.Request, err error) {
	if w.status == 0 {
		WriteError(w, r, err)
	}
}

func setRoute(w http.ResponseWriter, template string) {
	if reply, ok := w.(*response); ok {
		reply.route = template
	}
}

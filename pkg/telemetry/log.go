// Package telemetry gives every service the same log, request id, metrics
// registry, debug pages and traces. It knows nothing of gRPC servers.
package telemetry

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// NewLogger returns a JSON logger to standard output with the service's name
// and version in every line. level is debug, info, warn or error.
func NewLogger(service, version, level string) (*zap.Logger, error) {
	lvl, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("parsing the log level: %w", err)
	}
	enc := zap.NewProductionEncoderConfig()
	enc.TimeKey = "time"
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(enc), zapcore.Lock(os.Stdout), lvl)
	return zap.New(core, zap.ErrorOutput(zapcore.Lock(os.Stderr))).
		With(zap.String("service", service), zap.String("version", version)), nil
}

type requestIDKey struct{}

// RequestIDHeader is the HTTP header and, in lower case, the gRPC metadata key
// that carries the request id between services and back to the caller.
const RequestIDHeader = "X-Request-Id"

// NewRequestID returns a fresh id.
func NewRequestID() string { return uuid.NewString() }

// ValidRequestID says whether an id that came from outside may be taken over:
// up to 64 letters, digits, '-', '_' and '.'. Others are replaced, so that
// nobody writes into our logs.
func ValidRequestID(id string) bool {
	return id != "" && len(id) <= 64 && strings.IndexFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}) < 0
}

// WithRequestID puts the id into the context.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID returns the context's request id, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// Log returns the logger with the context's request id in every line.
func Log(ctx context.Context, log *zap.Logger) *zap.Logger {
	if id := RequestID(ctx); id != "" {
		return log.With(zap.String("request_id", id))
	}
	return log
}

package grpcx

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/pkg/telemetry"
)

const (
	// deadlineShave is taken off a caller's deadline, so that the reason can
	// still be answered before the caller gives up with a bare timeout.
	deadlineShave = 20 * time.Millisecond
	// minRemaining is the time under which no work is begun.
	minRemaining = 50 * time.Millisecond
)

type callMetrics struct {
	seconds *prometheus.HistogramVec
}

func newCallMetrics(reg prometheus.Registerer) callMetrics {
	m := callMetrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "muniment_grpc_server_seconds",
		Help:    "Duration of gRPC calls served, by method and status code.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"method", "code"})}
	reg.MustRegister(m.seconds)
	return m
}

type interceptors struct {
	log          *zap.Logger
	metrics      callMetrics
	callers      Callers
	authenticate func(ctx context.Context, fullMethod string) (context.Context, error)
	validator    protovalidate.Validator
}

// unary is the whole chain of a call in order: request id, panic guard, caller
// allow list, deadline, identity, shape, work, error mapping, log line.
func (i interceptors) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	ctx = takeRequestID(ctx)
	_ = grpc.SetHeader(ctx, metadata.Pairs(strings.ToLower(telemetry.RequestIDHeader), telemetry.RequestID(ctx)))
	start := time.Now()
	defer func() { err = i.finish(ctx, info.FullMethod, start, recover(), err) }()

	workCtx, cancel, err := i.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if msg, ok := req.(proto.Message); ok {
		if err := i.validate(msg); err != nil {
			return nil, err
		}
	}
	return handler(workCtx, req)
}

// stream is the same chain for streams; every message received is validated.
func (i interceptors) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	ctx := takeRequestID(ss.Context())
	_ = ss.SetHeader(metadata.Pairs(strings.ToLower(telemetry.RequestIDHeader), telemetry.RequestID(ctx)))
	start := time.Now()
	defer func() { err = i.finish(ctx, info.FullMethod, start, recover(), err) }()

	if open(info.FullMethod) {
		return handler(srv, ss)
	}
	workCtx, cancel, err := i.admit(ctx, info.FullMethod)
	if err != nil {
		return err
	}
	defer cancel()
	return handler(srv, &validatedStream{ServerStream: ss, ctx: workCtx, validate: i.validate})
}

// open lists what every certificate of our CA may call.
func open(fullMethod string) bool {
	return strings.HasPrefix(fullMethod, "/grpc.health.v1.Health/") || strings.HasPrefix(fullMethod, "/grpc.reflection.")
}

// admit decides whether the call may go on, before its body is looked at.
func (i interceptors) admit(ctx context.Context, fullMethod string) (context.Context, context.CancelFunc, error) {
	if open(fullMethod) {
		return ctx, func() {}, nil
	}
	peers := Peers(ctx)
	if !slices.ContainsFunc(peers, func(p string) bool { return slices.Contains(i.callers[fullMethod], p) }) {
		return nil, nil, status.Errorf(codes.PermissionDenied, "this certificate may not call %s", fullMethod)
	}
	cancel := context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		if time.Until(deadline) < minRemaining {
			return nil, nil, status.Error(codes.DeadlineExceeded, "too little time left to begin")
		}
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-deadlineShave))
	}
	if i.authenticate != nil {
		var err error
		if ctx, err = i.authenticate(ctx, fullMethod); err != nil {
			cancel()
			return nil, nil, err
		}
	}
	return ctx, cancel, nil
}

// validate turns the contract's first broken rule into an error that names the
// field as JSON spells it.
func (i interceptors) validate(msg proto.Message) error {
	err := i.validator.Validate(msg)
	var broken *protovalidate.ValidationError
	if errors.As(err, &broken) && len(broken.Violations) > 0 {
		v := broken.Violations[0]
		field := jsonPath(v)
		if field == "" {
			field = "request"
		}
		return rpcerr.Invalid(field, v.Proto.GetMessage())
	}
	if err != nil {
		return rpcerr.Internal(fmt.Errorf("validating the request: %w", err))
	}
	return nil
}

// jsonPath spells a violation's path as the caller wrote it: results[1].taskId.
func jsonPath(v *protovalidate.Violation) string {
	var path strings.Builder
	for _, e := range v.Proto.GetField().GetElements() {
		if path.Len() > 0 {
			path.WriteByte('.')
		}
		path.WriteString(jsonName(e.GetFieldName()))
		switch {
		case e.HasIndex():
			fmt.Fprintf(&path, "[%d]", e.GetIndex())
		case e.HasStringKey():
			fmt.Fprintf(&path, "[%q]", e.GetStringKey())
		}
	}
	return path.String()
}

// jsonName is protobuf's own default: snake_case to lowerCamelCase.
func jsonName(field string) string {
	var b strings.Builder
	upper := false
	for _, r := range field {
		switch {
		case r == '_':
			upper = true
		case upper && r >= 'a' && r <= 'z':
			b.WriteRune(r - 'a' + 'A')
			upper = false
		default:
			b.WriteRune(r)
			upper = false
		}
	}
	return b.String()
}

// finish maps the error, counts the call and writes its one log line.
func (i interceptors) finish(ctx context.Context, fullMethod string, start time.Time, panicked any, err error) error {
	if panicked != nil {
		i.log.Error("panic", zap.String("method", fullMethod), zap.Any("panic", panicked), zap.ByteString("stack", debug.Stack()),
			zap.String("request_id", telemetry.RequestID(ctx)))
		err = rpcerr.Internal(fmt.Errorf("panic: %v", panicked))
	}
	told := rpcerr.From(err)
	code := status.Code(told)
	elapsed := time.Since(start)
	i.metrics.seconds.WithLabelValues(fullMethod, code.String()).Observe(elapsed.Seconds())
	if open(fullMethod) && err == nil {
		return nil
	}
	fields := []zap.Field{
		zap.String("method", fullMethod), zap.String("code", code.String()), zap.Duration("elapsed", elapsed),
		zap.Strings("caller", Peers(ctx)), zap.String("request_id", telemetry.RequestID(ctx)),
	}
	switch code {
	case codes.OK:
		i.log.Info("call", fields...)
	case codes.Internal, codes.Unknown:
		i.log.Error("call", append(fields, zap.NamedError("cause", err))...)
	default:
		i.log.Warn("call", append(fields, zap.NamedError("cause", err))...)
	}
	return told
}

// takeRequestID continues the caller's request id, or begins a new one.
func takeRequestID(ctx context.Context) context.Context {
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		if ids := md.Get(telemetry.RequestIDHeader); len(ids) == 1 && telemetry.ValidRequestID(ids[0]) {
			return telemetry.WithRequestID(ctx, ids[0])
		}
	}
	return telemetry.WithRequestID(ctx, telemetry.NewRequestID())
}

type validatedStream struct {
	grpc.ServerStream
	ctx      context.Context //nolint:containedctx // the stream's own context, with identity and request id
	validate func(proto.Message) error
}

func (s *validatedStream) Context() context.Context { return s.ctx }

func (s *validatedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if msg, ok := m.(protoreflect.ProtoMessage); ok {
		return s.validate(msg)
	}
	return nil
}

// Package rpcerr is the one place where errors become gRPC statuses. Below it,
// packages have sentinels and wrap with %w; above it, a caller sees a short
// sentence and never a driver's words.
//
// Across the wire survive: the code, the message, the field violations, the
// conflict's keys and the retry delay. The cause does not; it is for the log.
package rpcerr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Error is an error that knows how it is told to a caller. It is recognised by
// gRPC (GRPCStatus) and unwraps to its cause.
type Error struct {
	code    codes.Code
	message string
	details []protoadapt.MessageV1
	cause   error
}

// Error says everything, the cause included; it is for logs.
func (e *Error) Error() string {
	if e.cause == nil {
		return e.message
	}
	return e.message + ": " + e.cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus is what the caller sees: no cause in it.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.code, e.message)
	if len(e.details) == 0 {
		return st
	}
	with, err := st.WithDetails(e.details...)
	if err != nil {
		return st
	}
	return with
}

// NotFound is also the answer for 'not allowed': the two are indistinguishable.
// The cause, which may be nil, goes to the log only.
func NotFound(cause error) *Error {
	return &Error{code: codes.NotFound, message: "not found", cause: cause}
}

// Unauthenticated never says why; the cause goes to the log.
func Unauthenticated(cause error) *Error {
	return &Error{code: codes.Unauthenticated, message: "unauthenticated", cause: cause}
}

// Invalid names a field, spelled as in JSON, and the rule it broke.
func Invalid(field, rule string) *Error {
	return &Error{
		code:    codes.InvalidArgument,
		message: field + ": " + rule,
		details: []protoadapt.MessageV1{&errdetails.BadRequest{
			FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: rule}},
		}},
	}
}

// Conflict says what stands in the way. The keys (JSON names) are told beside
// the message, for example the id of the crawl that already runs.
func Conflict(message string, keys map[string]string) *Error {
	e := &Error{code: codes.AlreadyExists, message: message}
	if len(keys) > 0 {
		e.details = []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: "CONFLICT", Domain: "muniment", Metadata: keys}}
	}
	return e
}

// FailedPrecondition says that the thing is there and its state forbids this.
func FailedPrecondition(message string, cause error) *Error {
	return &Error{code: codes.FailedPrecondition, message: message, cause: cause}
}

// Unavailable says which dependency ("database", "authorization engine",
// "object store") does not answer, and when to try again (seconds are rounded
// up; zero means one second).
func Unavailable(dependency string, retryAfter time.Duration, cause error) *Error {
	if retryAfter <= 0 {
		retryAfter = time.Second
	}
	return &Error{
		code:    codes.Unavailable,
		message: dependency + " is not available",
		details: []protoadapt.MessageV1{&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)}},
		cause:   cause,
	}
}

// Internal is anything unexpected. The cause goes to the log.
func Internal(cause error) *Error {
	return &Error{code: codes.Internal, message: "internal error", cause: cause}
}

// ErrUnavailable is what a store or a client wraps when what it depends on does
// not answer; From turns it into UNAVAILABLE.
var ErrUnavailable = errors.New("dependency is not available")

// From maps any error to one that may be told to a caller. A status that came
// from another service keeps its code only where that is meaningful to pass on;
// an unknown error is Internal.
func From(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &Error{code: codes.Canceled, message: "canceled", cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return Unavailable("service", time.Second, err)
	case errors.Is(err, ErrUnavailable):
		return Unavailable("service", time.Second, err)
	}
	if st, ok := status.FromError(err); ok {
		switch st.Code() {
		case codes.NotFound, codes.InvalidArgument, codes.Unauthenticated, codes.AlreadyExists, codes.FailedPrecondition, codes.ResourceExhausted, codes.Unimplemented, codes.PermissionDenied:
			return err
		case codes.Unavailable, codes.DeadlineExceeded:
			return Unavailable("service", RetryAfter(err), err)
		case codes.Canceled:
			return &Error{code: codes.Canceled, message: "canceled", cause: err}
		}
	}
	return Internal(err)
}

// RetryAfter is the delay that an UNAVAILABLE status carries, or one second.
func RetryAfter(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			return r.GetRetryDelay().AsDuration()
		}
	}
	return time.Second
}

// TooLarge says that a body or a list is over its limit. Its detail tells it
// from gRPC's own refusal of a message, whose words are not for callers.
func TooLarge(what string, limit int64) *Error {
	return &Error{
		code: codes.ResourceExhausted, message: fmt.Sprintf("%s is over the limit of %d bytes", what, limit),
		details: []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: "TOO_LARGE", Domain: "muniment"}},
	}
}

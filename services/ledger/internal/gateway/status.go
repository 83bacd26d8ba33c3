package gateway

import (
	"bytes"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/muniment/muniment/pkg/rpcerr"
)

// WriteError answers err as the contract's errors are: one JSON object with
// "error" first. Only words of ours leave; the cause goes into the log line.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	if reply, ok := w.(*response); ok {
		reply.cause = err
	}
	e := describe(err)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if e.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.retryAfter.Seconds()))))
	}
	if e.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	body := e.body()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// httpError is an error as HTTP tells it.
type httpError struct {
	status     int
	message    string
	keys       map[string]string
	retryAfter time.Duration
}

func (e httpError) body() []byte {
	var b bytes.Buffer
	enc := jsontext.NewEncoder(&b, jsontext.AllowInvalidUTF8(true))
	names := make([]string, 0, len(e.keys))
	for name := range e.keys {
		if name != "error" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	// The encoder fails on wrong nesting alone, and the buffer never.
	_ = enc.WriteToken(jsontext.BeginObject)
	_ = enc.WriteToken(jsontext.String("error"))
	_ = enc.WriteToken(jsontext.String(e.message))
	for _, name := range names {
		_ = enc.WriteToken(jsontext.String(name))
		_ = enc.WriteToken(jsontext.String(e.keys[name]))
	}
	_ = enc.WriteToken(jsontext.EndObject)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// describe maps a status to HTTP. A message is passed on only where it is one of
// ours: gRPC's own name addresses and internals.
func describe(err error) httpError {
	if err == errMethod { //nolint:errorlint // a marker of this package, never wrapped
		return httpError{status: http.StatusMethodNotAllowed, message: "method not allowed"}
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.Convert(rpcerr.From(err))
	}
	switch st.Code() {
	case codes.InvalidArgument:
		return httpError{status: http.StatusBadRequest, message: st.Message()}
	case codes.Unauthenticated:
		return httpError{status: http.StatusUnauthorized, message: "unauthenticated"}
	case codes.NotFound, codes.Unimplemented:
		// Not implemented by the service that runs: not built, hence unknown.
		return httpError{status: http.StatusNotFound, message: "not found"}
	case codes.AlreadyExists, codes.FailedPrecondition:
		return httpError{status: http.StatusConflict, message: st.Message(), keys: keysOf(st)}
	case codes.ResourceExhausted:
		return httpError{status: http.StatusRequestEntityTooLarge, message: st.Message()}
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return httpError{status: http.StatusServiceUnavailable, message: st.Message(), retryAfter: rpcerr.RetryAfter(st.Err())}
	}
	return httpError{status: http.StatusInternalServerError, message: "internal error"}
}

// keysOf are what a conflict tells beside its message.
func keysOf(st *status.Status) map[string]string {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetMetadata()
		}
	}
	return nil
}

package gateway

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/muniment/muniment/pkg/rpcerr"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	const driver = "dial tcp 10.0.0.7:5432: column \"x\" does not exist"
	// wire is what a service's error looks like after it crossed the wire.
	wire := func(err *rpcerr.Error) error { return status.Convert(err).Err() }
	for name, tc := range map[string]struct {
		err        error
		status     int
		body       string
		retryAfter string
	}{
		"invalid":             {wire(rpcerr.Invalid("results[1].status", "must be captured, failed or skipped")), 400, `{"error":"results[1].status: must be captured, failed or skipped"}`, ""},
		"unauthenticated":     {wire(rpcerr.Unauthenticated(errors.New(driver))), 401, `{"error":"unauthenticated"}`, ""},
		"not found":           {wire(rpcerr.NotFound(errors.New(driver))), 404, `{"error":"not found"}`, ""},
		"not found, chatty":   {status.Error(codes.NotFound, "no row "+driver), 404, `{"error":"not found"}`, ""},
		"not built":           {status.Error(codes.Unimplemented, "method X not implemented"), 404, `{"error":"not found"}`, ""},
		"conflict":            {wire(rpcerr.Conflict("a crawl is already in progress", map[string]string{"startedAt": "2026-11-30T17:00:00Z", "crawlId": "c", "error": "not this"})), 409, `{"error":"a crawl is already in progress","crawlId":"c","startedAt":"2026-11-30T17:00:00Z"}`, ""},
		"conflict, no keys":   {wire(rpcerr.Conflict("a crawl is already in progress", nil)), 409, `{"error":"a crawl is already in progress"}`, ""},
		"precondition":        {wire(rpcerr.FailedPrecondition("stored object changed", nil)), 409, `{"error":"stored object changed"}`, ""},
		"unavailable":         {wire(rpcerr.Unavailable("database", 1500*time.Millisecond, errors.New(driver))), 503, `{"error":"database is not available"}`, "2"},
		"service gone":        {status.Error(codes.Unavailable, "connection error: desc = "+driver), 503, `{"error":"orders is not available"}`, "1"},
		"service too slow":    {status.Error(codes.DeadlineExceeded, "context deadline exceeded"), 503, `{"error":"orders is not available"}`, "1"},
		"deadline, no status": {context.DeadlineExceeded, 503, `{"error":"service is not available"}`, "1"},
		"too large":           {status.Error(codes.ResourceExhausted, "grpc: received message larger than max "+driver), 413, `{"error":"the request is over its limit"}`, ""},
		"too large, by us":    {wire(rpcerr.TooLarge("what the feed held at that moment", 8)), 413, `{"error":"what the feed held at that moment is over the limit of 8 bytes"}`, ""},
		"internal":            {wire(rpcerr.Internal(errors.New(driver))), 500, `{"error":"internal error"}`, ""},
		"internal, chatty":    {status.Error(codes.Internal, driver), 500, `{"error":"internal error"}`, ""},
		"unknown":             {errors.New(driver), 500, `{"error":"internal error"}`, ""},
		"our own certificate": {status.Error(codes.PermissionDenied, "this certificate may not call"), 500, `{"error":"internal error"}`, ""},
		"data loss":           {status.Error(codes.DataLoss, driver), 500, `{"error":"internal error"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.err = tc.err
			w := b.do("GET", "/api/orders/1", "")
			require.Equal(t, tc.status, w.Code, w.Body.String())
			require.Equal(t, tc.body, w.Body.String())
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			require.Equal(t, tc.retryAfter, w.Header().Get("Retry-After"))
			require.NotEmpty(t, w.Header().Get("X-Request-ID"))
		})
	}
}

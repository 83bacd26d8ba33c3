package rpcerr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/muniment/muniment/pkg/rpcerr"
)

func TestFromTellsNoCause(t *testing.T) {
	t.Parallel()
	driver := errors.New(`ERROR: relation "archives" does not exist (SQLSTATE 42P01)`)
	for name, tc := range map[string]struct {
		err  error
		code codes.Code
		told string
	}{
		"unknown":             {driver, codes.Internal, "internal error"},
		"not found, wrapped":  {fmt.Errorf("looking up: %w", rpcerr.NotFound(driver)), codes.NotFound, "not found"},
		"unauthenticated":     {rpcerr.Unauthenticated(driver), codes.Unauthenticated, "unauthenticated"},
		"unavailable":         {fmt.Errorf("reading: %w: %w", rpcerr.ErrUnavailable, driver), codes.Unavailable, "service is not available"},
		"deadline":            {fmt.Errorf("reading: %w", context.DeadlineExceeded), codes.Unavailable, "service is not available"},
		"canceled":            {context.Canceled, codes.Canceled, "canceled"},
		"another's internal":  {status.Error(codes.Internal, "SQLSTATE"), codes.Internal, "internal error"},
		"another's not found": {status.Error(codes.NotFound, "not found"), codes.NotFound, "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := status.Convert(rpcerr.From(tc.err))
			if st.Code() != tc.code || st.Message() != tc.told {
				t.Fatalf("told %s %q, want %s %q", st.Code(), st.Message(), tc.code, tc.told)
			}
		})
	}
}

func TestRetryAfterCrossesTheWire(t *testing.T) {
	t.Parallel()
	first := rpcerr.From(rpcerr.Unavailable("database", 7*time.Second, nil))
	over := status.FromProto(status.Convert(first).Proto()).Err()
	if got := rpcerr.RetryAfter(rpcerr.From(over)); got != 7*time.Second {
		t.Fatalf("got %s", got)
	}
}

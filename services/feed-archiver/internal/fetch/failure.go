package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Error is a read that did not succeed. Its text names no URL and repeats
// nothing of the body.
type Error struct {
	// Status is the HTTP status, 0 where no answer came.
	Status int
	// Reason is one sentence for the record of failed reads.
	Reason string
	// RetryAfter is when the host may be asked again; zero when it did not say.
	RetryAfter time.Time
}

// Error returns the status, where there is one, and the reason.
func (e *Error) Error() string {
	if e.Status == 0 {
		return e.Reason
	}
	return fmt.Sprintf("status %d: %s", e.Status, e.Reason)
}

func failed(status int, format string, args ...any) *Error {
	return &Error{Status: status, Reason: fmt.Sprintf(format, args...)}
}

// statusError describes an answer that is neither a body nor a 304.
func (c *Client) statusError(response *http.Response) *Error {
	e := failed(response.StatusCode, "the server answered %s", strings.ToLower(http.StatusText(response.StatusCode)))
	if http.StatusText(response.StatusCode) == "" {
		e.Reason = "the server answered with a status that is not known"
	}
	if until, ok := retryAfter(response, c.now()); ok {
		e.RetryAfter = until
		e.Reason += "; it may be asked again at " + until.UTC().Format(time.RFC3339)
	}
	return e
}

// longestPause bounds what a Retry-After can ask for: a header with a year in
// it is a mistake, and must not end the archive of a feed.
const longestPause = 24 * time.Hour

// retryAfter reads the header's two forms, seconds and a date.
func retryAfter(response *http.Response, now time.Time) (time.Time, bool) {
	value := strings.TrimSpace(response.Header.Get("Retry-After"))
	if value == "" {
		return time.Time{}, false
	}
	var until time.Time
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		until = now.Add(time.Duration(seconds) * time.Second)
	} else if date, err := http.ParseTime(value); err == nil {
		until = date
	} else {
		return time.Time{}, false
	}
	if latest := now.Add(longestPause); until.After(latest) {
		until = latest
	}
	return until, until.After(now)
}

// transportError describes a request that brought no answer. Only errors of
// known kinds are quoted: the HTTP client's own text starts with the URL.
func transportError(err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	outer, ok := errors.AsType[*url.Error](err)
	if ok {
		err = outer.Err
	}
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var operation *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return failed(0, "the read was given up because the archiver is stopping")
	case errors.Is(err, context.DeadlineExceeded) || (outer != nil && outer.Timeout()):
		return failed(0, "the server did not answer in time")
	case errors.As(err, &dns):
		return failed(0, "the host's name was not found")
	case errors.As(err, &certificate):
		return failed(0, "the server's certificate is not to be trusted: %v", certificate.Err)
	case errors.As(err, &operation):
		return failed(0, "no connection (%s): %v", operation.Op, operation.Err)
	}
	return failed(0, "the connection broke before an answer came")
}

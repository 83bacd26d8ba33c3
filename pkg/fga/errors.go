package fga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/muniment/muniment/pkg/rpcerr"
)

// What an error of this package means. Compare with errors.Is.
var (
	// ErrUnavailable: the engine cannot be reached, is overloaded or ran out of
	// time. Nothing is known and nothing was spent; come again after RetryAfter.
	ErrUnavailable = errors.New("authorization engine is not available")
	// ErrWrongStoreOrModel: the pinned store or model is not there, or the
	// engine does not take our token. No retry helps; a setting is wrong.
	ErrWrongStoreOrModel = errors.New("authorization engine does not know the pinned store or model")
	// ErrRefused: the engine will never take this request (an unknown relation,
	// a malformed name, one tuple twice).
	ErrRefused = errors.New("authorization engine refuses the request")
	// ErrConflict: another write was at the same tuple (passes on retry), or the
	// tuple is there with another condition (never passes).
	ErrConflict = errors.New("authorization engine reports a conflict")
)

// Error is what a call of the engine failed with.
type Error struct {
	// Kind is one of the sentinels above.
	Kind error
	// RetryAfter is what the engine asked for; zero when it did not say.
	RetryAfter time.Duration
	// Code and Message are the engine's own, for logs and for the reason of a
	// row that is set aside. They may name the refused tuple.
	Code, Message string

	doing string
	told  *rpcerr.Error
	cause error
}

// Error says everything; it is for logs.
func (e *Error) Error() string {
	text := e.doing + ": " + e.Kind.Error()
	if e.Code != "" {
		return text + ": " + e.Code + ": " + e.Message
	}
	return text + ": " + e.Message
}

// Unwrap gives the sentinel, the status that a caller of ours is told, and the
// cause.
func (e *Error) Unwrap() []error {
	errs := []error{e.Kind}
	if e.told != nil {
		errs = append(errs, e.told)
	}
	if e.cause != nil {
		errs = append(errs, e.cause)
	}
	return errs
}

// RetryAfter is the delay that the engine asked for, or zero.
func RetryAfter(err error) time.Duration {
	if known, ok := errors.AsType[*Error](err); ok {
		return known.RetryAfter
	}
	return 0
}

// unavailable builds an ErrUnavailable; callers are told 503 and a delay.
func unavailable(doing, message string, retryAfter time.Duration, cause error) *Error {
	return &Error{
		Kind: ErrUnavailable, RetryAfter: retryAfter, Message: message, doing: doing, cause: cause,
		told: rpcerr.Unavailable("authorization engine", retryAfter, errors.New(message)),
	}
}

// answer is what the client library's errors have in common when the engine
// answered at all.
type answer interface {
	error
	Body() []byte
	ResponseStatusCode() int
	ResponseHeader() http.Header
}

// classify tells what an error of the client library means. doing is a gerund.
func (c *Client) classify(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s: %w", doing, context.Canceled)
	}
	var got answer
	if !errors.As(err, &got) {
		return unavailable(doing, err.Error(), 0, err)
	}
	code, message := bodyOf(got)
	retryAfter := c.retryAfter(got.ResponseHeader())
	known := &Error{Kind: kindOf(got.ResponseStatusCode(), code, message), RetryAfter: retryAfter, Code: code, Message: message, doing: doing, cause: err}
	if errors.Is(known.Kind, ErrUnavailable) || errors.Is(known.Kind, ErrWrongStoreOrModel) {
		known.told = rpcerr.Unavailable("authorization engine", retryAfter, nil)
	}
	return known
}

// kindOf sorts the engine's answers. Its 400 covers both a bad tuple and a bad
// pin, so the code decides.
func kindOf(status int, code, message string) error {
	// Told like an overload, but it is over the size tomorrow as well.
	if code == "resource_exhausted" && strings.Contains(message, "message larger than max") {
		return ErrRefused
	}
	switch status {
	case http.StatusConflict:
		return ErrConflict
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return ErrWrongStoreOrModel
	case http.StatusBadRequest:
		switch code {
		case "authorization_model_not_found", "latest_authorization_model_not_found", "store_id_invalid_length", "authorization_model_id_too_long":
			return ErrWrongStoreOrModel
		case "cancelled":
			return ErrUnavailable
		case "":
			// Not in the engine's own form: something in between answered.
			return ErrUnavailable
		}
		return ErrRefused
	}
	return ErrUnavailable
}

func bodyOf(got answer) (code, message string) {
	var body struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(got.Body(), &body); err != nil {
		return "", "status " + strconv.Itoa(got.ResponseStatusCode())
	}
	return body.Code, body.Message
}

// retryAfter reads seconds or a date.
func (c *Client) retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		if wait := at.Sub(c.now()); wait > 0 {
			return wait
		}
	}
	return 0
}

package browserhive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
)

const (
	maxRedirects = 10
	userAgent    = "BrowserHive-standin/1.0 (local stack only)"
)

// exchange is one HTTP request with its response, as it goes into the WARC.
type exchange struct {
	started  time.Time
	target   *url.URL
	remoteIP string
	request  http.Header
	status   int
	proto    string
	header   http.Header
	body     []byte
	// truncated: the body was over the cap and is left out.
	truncated bool
	// bodyless: the body broke off and is left out.
	bodyless bool
}

// redirect is the response's next target, or nil.
func (e *exchange) redirect() *url.URL {
	switch e.status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		next, err := e.target.Parse(e.header.Get("Location"))
		if err != nil || e.header.Get("Location") == "" || (next.Scheme != "http" && next.Scheme != "https") {
			return nil
		}
		if next.Fragment == "" {
			next.Fragment, next.RawFragment = e.target.Fragment, e.target.RawFragment
		}
		return next
	}
	return nil
}

// mime is the response's media type without parameters.
func (e *exchange) mime() string {
	value, _, _ := strings.Cut(e.header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(value))
}

// fetcher fetches without following redirects, without decompressing and
// without cookies: what goes over the wire is what is archived.
type fetcher struct {
	client  *http.Client
	bodyCap int64
	now     func() time.Time
}

func newFetcher(bodyCap int64, now func() time.Time) *fetcher {
	return &fetcher{
		client: &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
				TLSHandshakeTimeout: 10 * time.Second,
				IdleConnTimeout:     30 * time.Second,
				DisableCompression:  true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		bodyCap: bodyCap,
		now:     now,
	}
}

// follow fetches target and what it redirects to; the last exchange is the
// final one. On an error the exchanges made so far are returned with it.
func (f *fetcher) follow(ctx context.Context, target *url.URL, referer string) ([]*exchange, error) {
	var made []*exchange
	for range maxRedirects + 1 {
		e, err := f.fetch(ctx, target, referer)
		if err != nil {
			return made, err
		}
		made = append(made, e)
		next := e.redirect()
		if next == nil {
			return made, nil
		}
		target = next
	}
	return made, fmt.Errorf("%s redirects more than %d times", made[0].target, maxRedirects)
}

func (f *fetcher) fetch(ctx context.Context, target *url.URL, referer string) (*exchange, error) {
	e := &exchange{started: f.now(), target: target, request: http.Header{}}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if host, _, err := net.SplitHostPort(info.Conn.RemoteAddr().String()); err == nil {
				e.remoteIP = host
			}
		},
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	e.request.Set("Host", target.Host)
	e.request.Set("User-Agent", userAgent)
	e.request.Set("Accept", "*/*")
	e.request.Set("Accept-Encoding", "identity")
	if referer != "" {
		e.request.Set("Referer", referer)
	}
	req.Header = e.request.Clone()
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	e.status, e.header = resp.StatusCode, resp.Header.Clone()
	e.proto = fmt.Sprintf("HTTP/%d.%d", resp.ProtoMajor, resp.ProtoMinor)
	body, err := io.ReadAll(io.LimitReader(resp.Body, f.bodyCap+1))
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		e.bodyless = true
	case int64(len(body)) > f.bodyCap:
		e.truncated = true
	default:
		e.body = body
	}
	return e, nil
}

// classify turns a failed fetch of the page into the manifest's words.
func classify(err error, timeout time.Duration) (string, *errorDetails) {
	timedOut, isNetwork := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return statusFailed, &errorDetails{Type: errorCancelled, Message: "the caller hung up"}
	case errors.Is(err, context.DeadlineExceeded), isNetwork && timedOut.Timeout():
		return statusTimeout, &errorDetails{
			Type: errorTimeout, TimeoutMS: timeout.Milliseconds(),
			Message: fmt.Sprintf("Navigation timeout of %d ms exceeded", timeout.Milliseconds()),
		}
	}
	_, isOp := errors.AsType[*net.OpError](err)
	if isOp || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return statusFailed, &errorDetails{Type: errorConnection, Message: err.Error()}
	}
	return statusFailed, &errorDetails{Type: errorInternal, Message: err.Error()}
}

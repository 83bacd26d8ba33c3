// Package fetch reads one URL over HTTP for the feed archiver: politely,
// within limits, and completely or not at all. It knows nothing of feeds; what
// a body means, and whether it is the right one, is for its caller to say.
//
// The invariant: a Response with a body holds every byte that the server
// announced, decompressed to its end. Anything else is an Error, and an Error
// never repeats a URL, because a URL may hold a key.
package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Settings say how the archiver behaves towards the servers that it reads.
type Settings struct {
	// Contact is the mail address or the page of whoever runs this archiver. It
	// stands in the User-Agent of every request: servers that cannot ask a
	// reader to slow down block him, or serve him old data without a word.
	Contact string `env:"CONTACT,required"`
	// HostSpacing is the least time between two requests to one host.
	HostSpacing time.Duration `env:"HOST_SPACING" envDefault:"1s"`
	// RequestTimeout bounds one request from the first byte sent to the last
	// byte received.
	RequestTimeout time.Duration `env:"REQUEST_TIMEOUT" envDefault:"90s"`
	// MaxWait is how long a request waits for its turn at a host; a host that
	// asked for a longer pause fails the read instead.
	MaxWait time.Duration `env:"MAX_WAIT" envDefault:"30s"`
	// HTTPCAFile is a PEM file with certificate authorities to trust beside the
	// system's own, for a proxy that opens TLS. Verification cannot be turned off.
	HTTPCAFile string `env:"HTTP_CA_FILE"`
}

// Validate checks what the fields cannot say alone.
func (s Settings) Validate(prefix string) error {
	switch {
	case strings.TrimSpace(s.Contact) == "" || strings.ContainsAny(s.Contact, "\r\n()"):
		return fmt.Errorf("%sCONTACT must be one line without brackets: a mail address or a page", prefix)
	case s.RequestTimeout <= 0:
		return fmt.Errorf("%sREQUEST_TIMEOUT (%s) must be positive", prefix, s.RequestTimeout)
	case s.HostSpacing < 0 || s.HostSpacing > s.MaxWait:
		return fmt.Errorf("%sHOST_SPACING (%s) must be between 0 and %sMAX_WAIT (%s)", prefix, s.HostSpacing, prefix, s.MaxWait)
	}
	return nil
}

// Request names one thing to read.
type Request struct {
	URL *url.URL
	// Accept is the media type asked for. Some servers answer a request without
	// one from another cache.
	Accept string
	// Hosts are the hosts (with port, where there is one) that the request and
	// its redirects may go to.
	Hosts []string
	// ETag and LastModified are the validators of an earlier answer; either
	// makes the request conditional.
	ETag         string
	LastModified string
	// MaxBytes bounds the body, as sent and as decompressed.
	MaxBytes int64
	// Secret is a key that the URL holds. A body that repeats it is refused.
	Secret string
}

// Response is a complete answer: a body, or the word that nothing changed.
type Response struct {
	// Status is 200 or 304.
	Status int
	// Body is whole and decompressed; nil for a 304.
	Body []byte
	// URL is where the body came from, after redirects. It may hold a key.
	URL *url.URL
	// ETag and LastModified are the validators as received, Date and Age the
	// headers that say how old an answer from a cache is.
	ETag         string
	LastModified string
	Date         string
	Age          string
}

// Client reads URLs. It is safe for concurrent use.
type Client struct {
	settings  Settings
	userAgent string
	base      http.RoundTripper
	hosts     *hosts
	now       func() time.Time
}

// New makes a client that presents itself as the given version of the archiver.
func New(settings Settings, version string, now func() time.Time) (*Client, error) {
	roots, err := trustedRoots(settings.HTTPCAFile)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		// Decompression is ours: the transport's own hides a stream that ends early
		// behind a changed length, and has no limit.
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        2,
		IdleConnTimeout:        30 * time.Second,
		TLSHandshakeTimeout:    15 * time.Second,
		ResponseHeaderTimeout:  settings.RequestTimeout,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &Client{
		settings:  settings,
		userAgent: fmt.Sprintf("muniment-feed-archiver/%s (%s)", version, settings.Contact),
		base:      transport,
		hosts:     newHosts(settings.HostSpacing),
		now:       now,
	}, nil
}

// trustedRoots returns nil (the system's roots) when no file is named.
func trustedRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authorities for feeds: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's certificate authorities: %w", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
	}
	return roots, nil
}

// Close drops idle connections.
func (c *Client) Close() {
	if t, ok := c.base.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// Get reads one URL. Its error is always an *Error.
func (c *Client) Get(ctx context.Context, r Request) (*Response, error) {
	if !allowed(r.Hosts, r.URL) {
		return nil, failed(0, "the address %s is not among the source's hosts", r.URL.Host)
	}
	if err := c.takeTurn(ctx, r.URL.Host); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.settings.RequestTimeout)
	defer cancel()
	request, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, failed(0, "the address cannot be asked for")
	}
	response, err := c.following(r).Do(request)
	if err != nil {
		return nil, transportError(err)
	}
	defer func() { _ = response.Body.Close() }()
	return c.receive(response, r)
}

func (c *Client) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", c.userAgent)
	request.Header.Set("Accept", r.Accept)
	request.Header.Set("Accept-Encoding", "gzip")
	if r.ETag != "" {
		request.Header.Set("If-None-Match", r.ETag)
	}
	if r.LastModified != "" {
		request.Header.Set("If-Modified-Since", r.LastModified)
	}
	return request, nil
}

// receive turns an answer into a Response or an Error.
func (c *Client) receive(response *http.Response, r Request) (*Response, error) {
	c.noteRetryAfter(response)
	result := &Response{
		Status:       response.StatusCode,
		URL:          response.Request.URL,
		ETag:         response.Header.Get("ETag"),
		LastModified: response.Header.Get("Last-Modified"),
		Date:         response.Header.Get("Date"),
		Age:          response.Header.Get("Age"),
	}
	conditional := r.ETag != "" || r.LastModified != ""
	switch {
	case response.StatusCode == http.StatusNotModified && conditional:
		return result, nil
	case response.StatusCode == http.StatusNotModified:
		return nil, failed(response.StatusCode, "the server says not modified, but was not asked")
	case response.StatusCode != http.StatusOK:
		return nil, c.statusError(response)
	}
	body, err := readBody(response, r.MaxBytes)
	if err != nil {
		return nil, err
	}
	if r.Secret != "" && containsSecret(body, r.Secret) {
		return nil, failed(response.StatusCode, "the body repeats the key that it was asked with")
	}
	result.Body = body
	return result, nil
}

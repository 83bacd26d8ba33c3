// Package inner is the Windmill script f/muniment/crawl_host/main: it has the
// pages of one host captured by BrowserHive, one after the other, and keeps the
// host's delay between the end of one capture and the start of the next.
package inner

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// connectTimeout bounds reaching an endpoint; one that cannot be reached is
	// gone, which is another thing than one that does not answer.
	connectTimeout = 10 * time.Second
	// replyBytes bounds a reply of BrowserHive.
	replyBytes = 8 << 20
	// The ledger's limits for the texts of a result.
	maxReason        = 2000
	maxManifestError = 10000
)

// formats are the artifacts to ask for; BrowserHive wants all six named.
type formats struct {
	PNG   bool `json:"png"`
	WebP  bool `json:"webp"`
	HTML  bool `json:"html"`
	Links bool `json:"links"`
	MHTML bool `json:"mhtml"`
	WACZ  bool `json:"wacz"`
}

// script is a behaviour that BrowserHive runs in the page.
type script struct {
	ID      string `json:"id"`
	Source  string `json:"source"`
	SHA256  string `json:"sha256"`
	Options any    `json:"options,omitempty"`
}

// sink is where BrowserHive puts the artifacts; without a URL there is none.
type sink struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// result is a page's line in the level report. A task id goes with exactly one
// of manifestLocation and manifestError, and neither comes without it.
type result struct {
	URL              string    `json:"url"`
	Status           string    `json:"status"`
	SkipReason       string    `json:"skipReason,omitempty"`
	TaskID           string    `json:"taskId,omitempty"`
	CorrelationID    string    `json:"correlationId,omitempty"`
	SubmittedAt      time.Time `json:"submittedAt"`
	FinishedAt       time.Time `json:"finishedAt"`
	LinksLocation    string    `json:"linksLocation,omitempty"`
	ManifestLocation string    `json:"manifestLocation,omitempty"`
	ManifestError    string    `json:"manifestError,omitempty"`
}

// main is called by Windmill. endpoints is a JSON list of BrowserHive's URLs and
// caCertificate the PEM of its private CA, or nothing; both are Windmill
// variables and so texts.
func main(
	crawlID string,
	pages []string,
	delayMs int64,
	notBefore string,
	captureFormats formats,
	signing bool,
	scripts []script,
	artifactSink sink,
	endpoints string,
	caCertificate string,
	answerSeconds int64,
	busySeconds int64,
) ([]result, error) {
	bases, err := parseEndpoints(endpoints)
	if err != nil {
		return nil, err
	}
	client, err := newClient(caCertificate)
	if err != nil {
		return nil, err
	}
	first, err := time.Parse(time.RFC3339Nano, notBefore)
	if err != nil {
		return nil, fmt.Errorf("reading notBefore: %w", err)
	}
	if answerSeconds <= 0 || busySeconds <= 0 || delayMs < 0 {
		return nil, fmt.Errorf("answerSeconds %d and busySeconds %d must be positive, delayMs %d not negative", answerSeconds, busySeconds, delayMs)
	}
	request := captureRequest{
		Labels: []string{}, CorrelationID: crawlID, Formats: captureFormats, Signing: signing, Behaviors: scripts,
	}
	if artifactSink.URL != "" {
		request.Sink = &artifactSink
	}
	c := crawler{
		endpoints: bases, client: client, request: request,
		delay:  time.Duration(delayMs) * time.Millisecond,
		answer: time.Duration(answerSeconds) * time.Second,
		busy:   time.Duration(busySeconds) * time.Second,
		now:    time.Now, sleep: time.Sleep,
		pause: func() time.Duration { return 500*time.Millisecond + rand.N(time.Second) },
	}
	return c.crawl(pages, first)
}

func parseEndpoints(list string) ([]string, error) {
	const variable = "(Windmill variable f/muniment/browserhive_endpoints)"
	var bases []string
	if err := json.Unmarshal([]byte(list), &bases); err != nil || len(bases) == 0 {
		return nil, fmt.Errorf("endpoints must be a JSON list of BrowserHive's URLs %s", variable)
	}
	for i, base := range bases {
		u, err := url.Parse(base)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("endpoint %q is not an http(s) URL %s", base, variable)
		}
		bases[i] = strings.TrimSuffix(base, "/")
	}
	return bases, nil
}

func newClient(ca string) (*http.Client, error) {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout: connectTimeout,
		// A connection that idled through the gap may be dead without our
		// knowing, and a capture is not something to send twice.
		DisableKeepAlives: true,
	}
	if strings.TrimSpace(ca) != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("caCertificate holds no PEM certificate (Windmill variable f/muniment/browserhive_ca)")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, CheckRedirect: noRedirect}, nil
}

type captureRequest struct {
	URL           string   `json:"url"`
	Labels        []string `json:"labels"`
	CorrelationID string   `json:"correlationId"`
	Formats       formats  `json:"captureFormats"`
	Signing       bool     `json:"signing"`
	Behaviors     []script `json:"behaviors,omitempty"`
	Sink          *sink    `json:"artifactSink,omitempty"`
}

// captureReply is BrowserHive's 200 answer.
type captureReply struct {
	TaskID string `json:"taskId"`
	Report struct {
		Status    string `json:"status"`
		Artifacts struct {
			Links string `json:"links"`
		} `json:"artifacts"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"errorDetails"`
	} `json:"report"`
	Manifest struct {
		Location string `json:"location"`
		Error    string `json:"error"`
	} `json:"manifest"`
}

type crawler struct {
	endpoints []string
	client    *http.Client
	request   captureRequest
	delay     time.Duration
	// answer is how long one call may take, busy how long a page waits while
	// every browser is busy.
	answer, busy time.Duration
	now          func() time.Time
	sleep        func(time.Duration)
	pause        func() time.Duration
}

// crawl captures the pages in order. Its only error is that no endpoint is
// left: then the level fails.
func (c crawler) crawl(pages []string, ready time.Time) ([]result, error) {
	results := make([]result, 0, len(pages))
	for _, page := range pages {
		c.waitUntil(ready)
		res, again, err := c.capture(page)
		if err == nil && again {
			c.waitUntil(res.FinishedAt.Add(c.delay))
			res, _, err = c.capture(page)
		}
		if err != nil {
			return nil, fmt.Errorf("capturing %s: %w", page, err)
		}
		ready = res.FinishedAt.Add(c.delay)
		results = append(results, res)
	}
	return results, nil
}

// waitUntil goes by the same clock that the results carry, so that a clock that
// is set back cannot shorten a gap.
func (c crawler) waitUntil(at time.Time) {
	for left := at.Sub(c.now().Round(0)); left > 0; left = at.Sub(c.now().Round(0)) {
		c.sleep(left)
	}
}

// errGone is an endpoint that cannot be reached.
var errGone = errors.New("endpoint gone")

// capture has one page captured by the first endpoint that takes it, in rounds
// while all are busy, and says whether the outcome is worth a second try.
func (c crawler) capture(page string) (result, bool, error) {
	c.request.URL = page
	body, err := json.Marshal(c.request)
	if err != nil {
		return result{}, false, fmt.Errorf("encoding the request: %w", err)
	}
	left := slices.Clone(c.endpoints)
	var gone []error
	for started := c.now(); ; c.sleep(c.pause()) {
		var alive []string
		for _, endpoint := range left {
			out := c.post(endpoint, body)
			switch {
			case out.gone != nil:
				gone = append(gone, fmt.Errorf("%s: %w", endpoint, out.gone))
			case out.busy:
				alive = append(alive, endpoint)
			default:
				res, again := c.judge(page, out)
				return res, again, nil
			}
		}
		if len(alive) == 0 {
			return result{}, false, fmt.Errorf("no BrowserHive is left: %w", errors.Join(append([]error{errGone}, gone...)...))
		}
		left = alive
		if c.now().Sub(started) > c.busy {
			at := stamp(c.now())
			return failed(page, at, at, fmt.Sprintf("every BrowserHive was busy for %s", c.busy)), false, nil
		}
	}
}

// outcome is what came back from one call.
type outcome struct {
	submitted, finished time.Time
	gone                error
	busy                bool
	unanswered          bool
	status              int
	errorType           string
	body                []byte
	broken              error
}

func (c crawler) post(endpoint string, body []byte) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), c.answer)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/captures", bytes.NewReader(body))
	if err != nil {
		return outcome{gone: err}
	}
	req.Header.Set("Content-Type", "application/json")
	out := outcome{submitted: stamp(c.now())}
	resp, err := c.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		out.status, out.errorType = resp.StatusCode, errorType(resp.Header.Get("X-Amzn-Errortype"))
		out.body, err = io.ReadAll(io.LimitReader(resp.Body, replyBytes))
	}
	out.finished = stamp(c.now())
	switch {
	case err == nil:
		out.busy = out.status == http.StatusTooManyRequests && out.errorType == "Busy"
	case ctx.Err() != nil:
		out.unanswered = true
	case out.status != 0:
		out.broken = err // the head of an answer came: the capture is over
	default:
		out.gone = err
	}
	return out
}

// errorType drops what some servers write around the name.
func errorType(header string) string {
	name, _, _ := strings.Cut(header, ":")
	return name[strings.LastIndexByte(name, '#')+1:]
}

var uuid = regexp.MustCompile(`^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$`)

// judge makes a result of an answer. Only BrowserHive's own report can be worth
// a second try.
func (c crawler) judge(page string, out outcome) (result, bool) {
	fail := func(reason string) (result, bool) { return failed(page, out.submitted, out.finished, reason), false }
	switch {
	case out.unanswered:
		return fail(fmt.Sprintf("BrowserHive did not answer in %s", c.answer))
	case out.broken != nil:
		return fail("BrowserHive's answer broke off: " + out.broken.Error())
	case out.status == http.StatusBadRequest && out.errorType == "ValidationException":
		var refusal struct {
			Message string `json:"message"`
		}
		if err := json.Unmarshal(out.body, &refusal); err != nil || refusal.Message == "" {
			return fail("BrowserHive refused the request")
		}
		return fail("BrowserHive refused the request: " + refusal.Message)
	case out.status != http.StatusOK:
		return fail(fmt.Sprintf("BrowserHive answered %d", out.status))
	}
	var reply captureReply
	if err := json.Unmarshal(out.body, &reply); err != nil || !uuid.MatchString(reply.TaskID) || reply.Report.Status == "" {
		return fail("BrowserHive's answer cannot be read")
	}
	res := result{
		URL: page, Status: "captured", TaskID: reply.TaskID, CorrelationID: c.request.CorrelationID,
		SubmittedAt: out.submitted, FinishedAt: out.finished,
		LinksLocation: reply.Report.Artifacts.Links, ManifestLocation: reply.Manifest.Location,
	}
	if res.ManifestLocation == "" {
		res.ManifestError = cut(reply.Manifest.Error, maxManifestError)
		if res.ManifestError == "" {
			res.ManifestError = "BrowserHive named no manifest"
		}
	}
	if reply.Report.Status == "success" {
		return res, false
	}
	res.Status = "failed"
	res.SkipReason = cut(reply.Report.Error.Message, maxReason)
	if res.SkipReason == "" {
		res.SkipReason = "BrowserHive reports " + cut(reply.Report.Status, 100)
	}
	switch reply.Report.Error.Type {
	case "connection", "timeout", "internal":
		return res, true
	}
	return res, false
}

func failed(page string, submitted, finished time.Time, reason string) result {
	return result{URL: page, Status: "failed", SkipReason: cut(reason, maxReason), SubmittedAt: submitted, FinishedAt: finished}
}

// cut keeps at most n characters.
func cut(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n])
	}
	return text
}

// stamp is a time in the ledger's precision, free of the monotonic clock.
func stamp(t time.Time) time.Time {
	return t.UTC().Truncate(time.Microsecond)
}

// Package windmill hands levels over to the workflow engine, by its webhook. It
// knows the webhook's contract; which pages make a level is decided elsewhere.
package windmill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Order is the webhook's body. Webhook runs fill no defaults of a flow's schema,
// so every key but artifact_sink always stands there.
type Order struct {
	CrawlID         uuid.UUID      `json:"crawl_id"`
	Depth           int32          `json:"depth"`
	Frontier        []Page         `json:"frontier"`
	PerHostDelayMS  int32          `json:"per_host_delay_ms"`
	HostParallelism int32          `json:"host_parallelism"`
	CaptureFormats  CaptureFormats `json:"capture_formats"`
	Signing         bool           `json:"signing"`
	Scripts         []struct{}     `json:"scripts"`
	ArtifactSink    *ArtifactSink  `json:"artifact_sink,omitempty"`
}

// Page is one page to capture; LastFinishedAt is when its host was last finished.
type Page struct {
	URL            string     `json:"url"`
	Host           string     `json:"host"`
	LastFinishedAt *time.Time `json:"lastFinishedAt"`
}

// CaptureFormats are BrowserHive's six.
type CaptureFormats struct {
	PNG   bool `json:"png"`
	WebP  bool `json:"webp"`
	HTML  bool `json:"html"`
	Links bool `json:"links"`
	MHTML bool `json:"mhtml"`
	WACZ  bool `json:"wacz"`
}

// ArtifactSink is where BrowserHive puts its files, in place of the bucket.
type ArtifactSink struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

const (
	// maxReply bounds what is read of a reply: a UUID, or somebody's error page.
	maxReply = 64 << 10
	// excerpt is how many characters of a reply are kept with a failed crawl.
	excerpt = 200
)

// Webhook calls one flow.
type Webhook struct {
	url, token string
	client     *http.Client
}

// NewWebhook returns a caller of the flow's webhook. timeout bounds one call.
func NewWebhook(url, token string, timeout time.Duration) *Webhook {
	return &Webhook{url: url, token: token, client: &http.Client{
		Timeout: timeout,
		// A redirect is no answer of the flow, and must not carry the token on.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// CallError says why an order did not become a job. Its text is for the crawl's
// error; the cause is for the log.
type CallError struct {
	text  string
	cause error
}

func (e *CallError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.cause }

// Call sends an order and returns the job's id. Whatever the error, the job may
// have been made: nobody calls twice.
func (w *Webhook) Call(ctx context.Context, order Order) (string, error) {
	body, err := json.Marshal(order)
	if err != nil {
		return "", fmt.Errorf("encoding the order: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("preparing the call: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return "", unanswered(err)
	}
	defer func() { _ = resp.Body.Close() }()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return "", unanswered(err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return "", &CallError{text: fmt.Sprintf("webhook answered %d: %s", resp.StatusCode, printable(reply))}
	}
	id, ok := jobID(reply)
	if !ok {
		return "", &CallError{text: fmt.Sprintf("webhook answered %d without a job id: %s", resp.StatusCode, printable(reply))}
	}
	return id, nil
}

func unanswered(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &CallError{text: "webhook did not answer in time", cause: err}
	}
	return &CallError{text: "webhook could not be reached", cause: err}
}

// jobID reads a UUID, bare or as a JSON string.
func jobID(reply []byte) (string, bool) {
	text := strings.TrimSpace(string(reply))
	var quoted string
	if json.Unmarshal([]byte(text), &quoted) == nil {
		text = quoted
	}
	id, err := uuid.Parse(text)
	return id.String(), err == nil && len(text) == 36
}

// printable returns the first characters of a reply in a form that the database
// and a log line take.
func printable(reply []byte) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(string(reply), "\uFFFD"), "\x00", "\uFFFD")
	if runes := []rune(text); len(runes) > excerpt {
		text = string(runes[:excerpt])
	}
	return text
}

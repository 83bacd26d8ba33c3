// Package inner is the Windmill script f/muniment/trigger_crawl/main: it starts
// a crawl and waits for its end, so that a Windmill schedule shows a failed
// crawl as a failed job.
package inner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	callTimeout = time.Minute
	replyBytes  = 4 << 20
	// patience is how many polls in a row may fail before the job does.
	patience = 10
)

// outcome is the script's answer. State is succeeded or, where another crawl
// was running already, skipped.
type outcome struct {
	State           string  `json:"state"`
	CrawlID         string  `json:"crawlId,omitempty"`
	StopReason      *string `json:"stopReason,omitempty"`
	PagesDiscovered int64   `json:"pagesDiscovered"`
	PagesCaptured   int64   `json:"pagesCaptured"`
}

// main is called by Windmill. crawl is the body of POST /api/crawls as the
// ledger's contract has it. waitMinutes bounds the wait for the crawl's end.
func main(gatewayURL string, gatewayToken string, crawl map[string]any, pollSeconds int64, waitMinutes int64) (outcome, error) {
	if pollSeconds <= 0 || waitMinutes <= 0 {
		return outcome{}, fmt.Errorf("pollSeconds is %d and waitMinutes %d; both must be positive", pollSeconds, waitMinutes)
	}
	t := trigger{
		api: strings.TrimSuffix(gatewayURL, "/") + "/api/crawls", token: gatewayToken,
		client: &http.Client{Timeout: callTimeout},
		poll:   time.Duration(pollSeconds) * time.Second, limit: time.Duration(waitMinutes) * time.Minute,
		now: time.Now, sleep: time.Sleep,
	}
	return t.run(crawl)
}

type trigger struct {
	api, token  string
	client      *http.Client
	poll, limit time.Duration
	now         func() time.Time
	sleep       func(time.Duration)
}

func (t trigger) run(crawl map[string]any) (outcome, error) {
	status, answer, err := t.call(http.MethodPost, t.api, crawl)
	if err != nil {
		return outcome{}, fmt.Errorf("starting the crawl: %w", err)
	}
	var started struct {
		CrawlID string `json:"crawlId"`
	}
	switch status {
	case http.StatusAccepted:
	case http.StatusConflict:
		return outcome{State: "skipped"}, nil
	default:
		return outcome{}, fmt.Errorf("starting the crawl: the ledger answered %d: %.200s", status, answer)
	}
	if err := json.Unmarshal(answer, &started); err != nil || started.CrawlID == "" {
		return outcome{}, fmt.Errorf("starting the crawl: the ledger named no crawl: %.200s", answer)
	}
	return t.wait(started.CrawlID)
}

// wait polls until the crawl has ended, well or badly.
func (t trigger) wait(id string) (outcome, error) {
	failures := 0
	for started := t.now(); ; t.sleep(t.poll) {
		done, out, err := t.look(id)
		switch {
		case errors.Is(err, errAgain):
			if failures++; failures >= patience {
				return outcome{}, fmt.Errorf("asking for crawl %s %d times: %w", id, failures, err)
			}
		case err != nil:
			return outcome{}, fmt.Errorf("crawl %s: %w", id, err)
		case done:
			return out, nil
		default:
			failures = 0
		}
		if t.now().Sub(started) > t.limit {
			return outcome{}, fmt.Errorf("crawl %s is still running after %s", id, t.limit)
		}
	}
}

// errAgain is a poll that may succeed the next time.
var errAgain = errors.New("the ledger is not available")

func (t trigger) look(id string) (bool, outcome, error) {
	status, answer, err := t.call(http.MethodGet, t.api+"/"+url.PathEscape(id), nil)
	switch {
	case err != nil:
		return false, outcome{}, fmt.Errorf("%w: %w", errAgain, err)
	case status >= 500:
		return false, outcome{}, fmt.Errorf("%w: it answered %d: %.200s", errAgain, status, answer)
	case status != http.StatusOK:
		return false, outcome{}, fmt.Errorf("the ledger answered %d: %.200s", status, answer)
	}
	var crawl struct {
		outcome
		Error *string `json:"error"`
	}
	if err := json.Unmarshal(answer, &crawl); err != nil {
		return false, outcome{}, fmt.Errorf("reading the ledger's answer: %w", err)
	}
	switch crawl.State {
	case "running":
		return false, outcome{}, nil
	case "succeeded":
		return true, crawl.outcome, nil
	case "failed":
		return false, outcome{}, fmt.Errorf("it failed (%s): %s", text(crawl.StopReason), text(crawl.Error))
	}
	return false, outcome{}, fmt.Errorf("its state is %q, which this script does not know", crawl.State)
}

func text(value *string) string {
	if value == nil {
		return "no reason given"
	}
	return *value
}

func (t trigger) call(method, target string, body any) (int, []byte, error) {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, nil, fmt.Errorf("encoding the request: %w", err)
		}
		content = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, target, content)
	if err != nil {
		return 0, nil, fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+t.token)
	resp, err := t.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("calling the ledger: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, replyBytes))
	if err != nil {
		return 0, nil, fmt.Errorf("reading the ledger's answer: %w", err)
	}
	return resp.StatusCode, answer, nil
}

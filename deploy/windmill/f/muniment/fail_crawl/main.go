// Package inner is the Windmill script f/muniment/fail_crawl/main, the failure
// module of crawl_level: it tells the ledger that the crawl cannot go on, so
// that the next one need not wait for this one's deadline. Calling it for a
// crawl that is closed already is harmless.
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
	"os"
	"strings"
	"time"
)

const (
	callTimeout = 30 * time.Second
	// tries and pause bound the wait for a ledger that is being restarted; after
	// that its own deadline closes the crawl.
	tries = 5
	pause = 2 * time.Second
)

// reply is the ledger's answer; closed is false where there was nothing left to
// close.
type reply struct {
	Closed bool `json:"closed"`
}

// main is called by Windmill.
func main(gatewayURL string, gatewayToken string, crawlID string) (reply, error) {
	return closer{sleep: time.Sleep, getenv: os.Getenv}.close(gatewayURL, gatewayToken, crawlID)
}

type closer struct {
	sleep  func(time.Duration)
	getenv func(string) string
}

func (c closer) close(gatewayURL, gatewayToken, crawlID string) (reply, error) {
	body, err := json.Marshal(map[string]string{"reason": c.reason()})
	if err != nil {
		return reply{}, fmt.Errorf("encoding the reason: %w", err)
	}
	target := strings.TrimSuffix(gatewayURL, "/") + "/api/crawls/" + url.PathEscape(crawlID) + "/failed"
	for try := 1; ; try++ {
		closed, err := post(target, gatewayToken, body)
		if err == nil || !errors.Is(err, errAgain) || try == tries {
			return closed, err
		}
		c.sleep(pause)
	}
}

// reason names the job: its page in Windmill shows which step failed and why.
func (c closer) reason() string {
	for _, name := range []string{"WM_ROOT_FLOW_JOB_ID", "WM_FLOW_JOB_ID"} {
		if job := c.getenv(name); job != "" {
			return "the Windmill flow failed; see job " + job
		}
	}
	return "the Windmill flow failed"
}

// errAgain is a failure that may pass.
var errAgain = errors.New("the ledger is not available")

func post(target, token string, body []byte) (reply, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return reply{}, fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := (&http.Client{Timeout: callTimeout}).Do(req)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errAgain, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch {
	case err != nil:
		return reply{}, fmt.Errorf("%w: reading its answer: %w", errAgain, err)
	case resp.StatusCode >= 500:
		return reply{}, fmt.Errorf("%w: it answered %d: %.200s", errAgain, resp.StatusCode, answer)
	case resp.StatusCode != http.StatusOK:
		return reply{}, fmt.Errorf("the ledger answered %d: %.200s", resp.StatusCode, answer)
	}
	var decoded reply
	if err := json.Unmarshal(answer, &decoded); err != nil {
		return reply{}, fmt.Errorf("reading the ledger's answer: %w", err)
	}
	return decoded, nil
}

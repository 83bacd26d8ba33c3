package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// caller is who calls the gateway.
type caller struct {
	subject       string
	organizations []string
}

var (
	alice    = caller{"alice", []string{"acme"}}
	mallory  = caller{"mallory", []string{"beta"}}
	windmill = caller{"windmill", []string{"acme"}}
	nobody   = caller{}
)

// archive is an archive as the gateway shows it.
type archive struct {
	ID           string  `json:"id"`
	TaskID       string  `json:"taskId"`
	SourceURL    string  `json:"sourceUrl"`
	WACZComplete *bool   `json:"waczComplete"`
	CapturedAt   string  `json:"capturedAt"`
	ObjectKey    string  `json:"objectKey"`
	Fixity       *string `json:"fixity"`
}

type archivePage struct {
	Archives      []archive `json:"archives"`
	NextPageToken *string   `json:"nextPageToken"`
}

type crawl struct {
	State           string  `json:"state"`
	StopReason      *string `json:"stopReason"`
	Error           *string `json:"error"`
	PagesDiscovered int     `json:"pagesDiscovered"`
	PagesCaptured   int     `json:"pagesCaptured"`
	Failures        []struct {
		URL    string `json:"url"`
		Depth  int    `json:"depth"`
		Reason string `json:"reason"`
	} `json:"failures"`
}

var client = &http.Client{Timeout: 30 * time.Second}

// call asks the gateway and decodes the answer, whose status must be want, into
// reply (which may be nil). The gateways of a stack are asked in turn.
func (w *walk) call(ctx context.Context, who caller, method, path string, body any, want int, reply any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	if body == nil {
		content = nil
	}
	gateway := w.stack.Gateways[w.gateway%len(w.stack.Gateways)]
	w.gateway++
	req, err := http.NewRequestWithContext(ctx, method, gateway+path, bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if who.subject != "" {
		req.Header.Set("Authorization", "Bearer "+w.stack.Issuer.Token(who.subject, who.organizations...))
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking the gateway: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 32<<20))
	if err != nil {
		return fmt.Errorf("reading the gateway's answer: %w", err)
	}
	if resp.StatusCode != want {
		return fmt.Errorf("%s %s answers %d %s, want %d", method, path, resp.StatusCode, bytes.TrimSpace(answer), want)
	}
	if reply == nil {
		return nil
	}
	if err := json.Unmarshal(answer, reply); err != nil {
		return fmt.Errorf("%s %s answers what is not its shape: %w", method, path, err)
	}
	return nil
}

// list returns every archive that the caller sees.
func (w *walk) list(ctx context.Context, who caller) ([]archive, error) {
	var all []archive
	path := "/api/archives?pageSize=5"
	for {
		var page archivePage
		if err := w.call(ctx, who, http.MethodGet, path, nil, http.StatusOK, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Archives...)
		if page.NextPageToken == nil {
			return all, nil
		}
		path = "/api/archives?pageSize=5&pageToken=" + *page.NextPageToken
	}
}

// runCrawl starts a crawl as alice and waits for its end.
func (w *walk) runCrawl(ctx context.Context, depth int, seeds ...string) (string, crawl, error) {
	request := map[string]any{
		"seeds": seeds, "maxDepth": depth, "maxPages": 30,
		"perHostDelayMs": 0, "hostParallelism": 1, "orgId": "acme",
	}
	w.sayf("POST /api/crawls, seeds %v, depth %d", seeds, depth)
	var started struct {
		CrawlID string `json:"crawlId"`
	}
	if err := w.call(ctx, alice, http.MethodPost, "/api/crawls", request, http.StatusAccepted, &started); err != nil {
		return "", crawl{}, err
	}
	w.sayf("  202, crawl %s", started.CrawlID)
	var c crawl
	shown := ""
	err := until(ctx, 60*time.Second, func(ctx context.Context) (bool, string, error) {
		if err := w.call(ctx, alice, http.MethodGet, "/api/crawls/"+started.CrawlID, nil, http.StatusOK, &c); err != nil {
			return false, "", err
		}
		state := fmt.Sprintf("%s: %d pages discovered, %d captured", c.State, c.PagesDiscovered, c.PagesCaptured)
		if state != shown {
			w.sayf("  %s", state)
			shown = state
		}
		return c.State != "running", state, nil
	})
	return started.CrawlID, c, err
}

// Package inner is the Windmill script f/muniment/report_level/main: it reports
// a level to the ledger, which decides what comes next. Reporting a level again
// is harmless, so the flow may run this step as often as it needs.
package inner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// reportTimeout bounds the call: the ledger reads every manifest of the
	// level before it answers.
	reportTimeout = 10 * time.Minute
	// replyBytes bounds the ledger's answer.
	replyBytes = 32 << 20
)

// reply is the ledger's answer.
type reply struct {
	Next []struct {
		URL   string `json:"url"`
		Host  string `json:"host"`
		Depth int    `json:"depth"`
	} `json:"next"`
	StopReason *string `json:"stopReason"`
}

// main is called by Windmill. Each result of skipped and hosts goes into the
// report as it came, for only the ledger judges them.
func main(gatewayURL string, gatewayToken string, crawlID string, depth int64, skipped []any, hosts [][]any) (reply, error) {
	results := append([]any{}, skipped...)
	for _, host := range hosts {
		results = append(results, host...)
	}
	body, err := json.Marshal(map[string]any{"depth": depth, "results": results})
	if err != nil {
		return reply{}, fmt.Errorf("encoding the report: %w", err)
	}
	target := strings.TrimSuffix(gatewayURL, "/") + "/api/crawls/" + url.PathEscape(crawlID) + "/pages"
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return reply{}, fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+gatewayToken)
	resp, err := (&http.Client{Timeout: reportTimeout}).Do(req)
	if err != nil {
		return reply{}, fmt.Errorf("reporting level %d: %w", depth, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, replyBytes))
	if err != nil {
		return reply{}, fmt.Errorf("reading the ledger's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return reply{}, fmt.Errorf("the ledger answered %d to level %d: %.200s", resp.StatusCode, depth, answer)
	}
	var decoded reply
	if err := json.Unmarshal(answer, &decoded); err != nil {
		return reply{}, fmt.Errorf("reading the ledger's answer: %w", err)
	}
	return decoded, nil
}

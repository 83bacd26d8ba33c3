package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
)

// crawl is step 1: a grant, a crawl through the gateway, its end.
func (w *walk) crawl(ctx context.Context) error {
	if err := w.grant(ctx); err != nil {
		return err
	}
	var me struct {
		CanSubmit bool     `json:"canSubmit"`
		SubmitTo  []string `json:"submitTo"`
	}
	if err := w.call(ctx, alice, http.MethodGet, "/api/me", nil, http.StatusOK, &me); err != nil {
		return err
	}
	w.sayf("GET /api/me as alice: canSubmit %v, submitTo %v", me.CanSubmit, me.SubmitTo)
	if err := equal("may alice submit", me.CanSubmit, true); err != nil {
		return err
	}
	id, c, err := w.runCrawl(ctx, 1, w.stack.Site()+"/", w.stack.Site()+racedPage)
	if err != nil {
		return err
	}
	w.crawlID = id
	if c.StopReason == nil {
		return errors.New("the crawl ended without a stop reason")
	}
	w.sayf("  it ended: %s, stop reason %s", c.State, *c.StopReason)
	for _, f := range c.Failures {
		w.sayf("  not captured: %s (%s)", f.URL, f.Reason)
	}
	if err := equal("the crawl's state", c.State, "succeeded"); err != nil {
		if c.Error != nil {
			return fmt.Errorf("%w: %s", err, *c.Error)
		}
		return err
	}
	if c.PagesCaptured < 5 {
		return fmt.Errorf("only %d pages were captured, want at least 5", c.PagesCaptured)
	}
	return w.followed(ctx)
}

// followed looks at which links were followed.
func (w *walk) followed(ctx context.Context) error {
	rows, err := w.db.Query(ctx, "SELECT url FROM ledger.crawl_pages WHERE crawl_id = $1 ORDER BY depth, url", w.crawlID)
	if err != nil {
		return fmt.Errorf("reading the crawl's pages: %w", err)
	}
	defer rows.Close()
	var urls []string
	for rows.Next() {
		var url string
		if err := rows.Scan(&url); err != nil {
			return fmt.Errorf("reading the crawl's pages: %w", err)
		}
		urls = append(urls, url)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading the crawl's pages: %w", err)
	}
	w.sayf("  its pages: %s", strings.Join(urls, " "))
	has := func(part string) bool {
		return slices.ContainsFunc(urls, func(u string) bool { return strings.Contains(u, part) })
	}
	if has("/docs/private.html") {
		return errors.New("a link with rel=nofollow was followed")
	}
	if !has("/docs/%E6%B8%AF.html") && !has("/docs/港.html") {
		return errors.New("the link with a non-ASCII path was not followed")
	}
	return nil
}

// grant lets alice submit for acme, with the operator's own command.
func (w *walk) grant(ctx context.Context) error {
	w.sayf("$ muniment grant submitter alice acme")
	cmd := exec.CommandContext(ctx, w.stack.Program("muniment"), "grant", "submitter", "alice", "acme")
	cmd.Env = w.stack.Env()
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		w.sayf("  %s", strings.TrimRight(line, "\n"))
	}
	if err != nil {
		return fmt.Errorf("granting: %w", err)
	}
	return nil
}

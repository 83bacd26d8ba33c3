package browserhive

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// artifact is one finished file of a capture.
type artifact struct {
	format, ext, contentType string
	data                     []byte
}

// capture is one capture under way.
type capture struct {
	settings Settings
	fetcher  *fetcher
	store    store
	now      func() time.Time
	req      captureRequest
	taskID   string
	started  time.Time
}

func newCapture(settings Settings, fetcher *fetcher, store store, now func() time.Time, req captureRequest) *capture {
	if req.Labels == nil {
		req.Labels = []string{}
	}
	return &capture{settings: settings, fetcher: fetcher, store: store, now: now, req: req, taskID: newUUID(), started: now()}
}

// run captures the page and puts its artifacts; the manifest it returns is not
// written yet. It never fails: what goes wrong stands in the manifest.
func (c *capture) run(ctx context.Context) manifest {
	ctx, cancel := context.WithTimeout(ctx, c.settings.CaptureTimeout)
	defer cancel()
	m := manifest{
		TaskID: c.taskID, CorrelationID: c.req.CorrelationID, URL: c.req.URL, Labels: c.req.Labels,
		Status: statusSuccess, Artifacts: map[string]string{},
	}
	c.fill(ctx, &m)
	m.Timestamp = stamp(c.now())
	m.ProcessingTimeMS = c.now().Sub(c.started).Milliseconds()
	return m
}

func (c *capture) fill(ctx context.Context, m *manifest) {
	chain, err := c.navigate(ctx)
	if err != nil {
		m.Status, m.Error = classify(err, c.settings.NavigationTimeout)
		return
	}
	final := chain[len(chain)-1]
	m.HTTPStatusCode = final.status
	if final.status >= http.StatusBadRequest {
		m.Status = statusHTTPError
		m.Error = &errorDetails{
			Type: errorHTTP, HTTPStatusCode: final.status, HTTPStatusText: http.StatusText(final.status),
			Message: fmt.Sprintf("HTTP %d: %s", final.status, http.StatusText(final.status)),
		}
		return
	}
	document := page{links: []link{}}
	if final.mime() == "text/html" || final.mime() == "application/xhtml+xml" {
		document = parsePage(final.body, final.target)
	}
	recorded, unreached := c.resources(ctx, document, final.target)
	if err := ctx.Err(); err != nil {
		m.Status, m.Error = classify(err, c.settings.CaptureTimeout)
		return
	}
	exchanges := slices.Concat(chain, recorded)
	m.Stats, m.Completeness = account(exchanges, unreached)
	if c.req.Signing {
		m.Signature = &signature{Reason: "the local stand-in does not sign"}
	}
	artifacts, err := c.artifacts(document, final, exchanges, m.Completeness)
	if err != nil {
		m.Status, m.Error = statusFailed, &errorDetails{Type: errorInternal, Message: err.Error()}
		return
	}
	for _, a := range artifacts {
		location, err := c.store.put(ctx, c.name(a.ext), a.contentType, a.data)
		if err != nil {
			m.Status, m.Error = statusFailed, &errorDetails{Type: errorArtifactSink, Message: err.Error()}
			m.Artifacts = map[string]string{}
			return
		}
		m.Artifacts[a.format] = location
	}
}

// navigate fetches the page with its redirects.
func (c *capture) navigate(ctx context.Context) ([]*exchange, error) {
	target, err := url.Parse(c.req.URL)
	if err != nil {
		return nil, fmt.Errorf("parsing the URL: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.settings.NavigationTimeout)
	defer cancel()
	return c.fetcher.follow(ctx, target, "")
}

// resources fetches what the document names and returns beside it the URLs
// that could not be fetched at all.
func (c *capture) resources(ctx context.Context, document page, referer *url.URL) (made []*exchange, unreached []string) {
	from := *referer
	from.Fragment, from.RawFragment = "", ""
	for i, target := range document.resources {
		if ctx.Err() != nil {
			return made, unreached
		}
		if i >= c.settings.MaxResources {
			unreached = append(unreached, target.String())
			continue
		}
		chain, err := c.fetcher.follow(ctx, target, from.String())
		made = append(made, chain...)
		if err != nil {
			unreached = append(unreached, target.String())
		}
	}
	return made, unreached
}

func account(exchanges []*exchange, unreached []string) (*waczStats, *completeness) {
	stats := &waczStats{TotalRecorded: len(exchanges), TotalFailed: len(unreached)}
	missing := &completeness{BodylessURLs: append([]string{}, unreached...), TruncatedURLs: []string{}}
	for _, e := range exchanges {
		stats.TotalBodyBytes += int64(len(e.body))
		switch {
		case e.truncated:
			stats.TotalTruncatedTooLarge++
			missing.TruncatedURLs = append(missing.TruncatedURLs, e.target.String())
		case e.bodyless:
			missing.BodylessURLs = append(missing.BodylessURLs, e.target.String())
		}
	}
	missing.Complete = len(missing.BodylessURLs) == 0 && len(missing.TruncatedURLs) == 0
	return stats, missing
}

// artifacts makes the files that were asked for.
func (c *capture) artifacts(document page, final *exchange, exchanges []*exchange, missing *completeness) ([]artifact, error) {
	var made []artifact
	if c.req.Formats["html"] {
		made = append(made, artifact{"html", "html", "text/html", final.body})
	}
	if c.req.Formats["links"] {
		data, err := json.MarshalIndent(linksFile{
			TaskID: c.taskID, URL: c.req.URL, FinalURL: final.target.String(), Labels: c.req.Labels,
			CorrelationID: c.req.CorrelationID, CapturedAt: stamp(c.now()), Links: document.links,
		}, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("encoding the links: %w", err)
		}
		made = append(made, artifact{"links", "links.json", "application/json", data})
	}
	if c.req.Formats["wacz"] {
		data, err := wacz{
			taskID: c.taskID, pageURL: c.req.URL, title: document.title,
			started: stamp(c.started), created: stamp(c.now()), exchanges: exchanges, complete: missing,
		}.build()
		if err != nil {
			return nil, fmt.Errorf("packing the WACZ: %w", err)
		}
		made = append(made, artifact{"wacz", "wacz", "application/wacz", data})
	}
	return made, nil
}

func (c *capture) name(ext string) string {
	return fileName(c.taskID, c.req.CorrelationID, c.req.Labels, ext)
}

// putManifest writes the manifest, last of all files.
func (c *capture) putManifest(ctx context.Context, m manifest) (string, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding the manifest: %w", err)
	}
	// The manifest of a capture that was hung up on is written all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.settings.ManifestTimeout)
	defer cancel()
	return c.store.put(ctx, c.name("result.json"), "application/json", data)
}

// stamp is a time as manifests spell it: UTC, in milliseconds.
func stamp(t time.Time) time.Time {
	return t.UTC().Truncate(time.Millisecond)
}

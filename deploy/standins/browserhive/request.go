package browserhive

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// maxRequestBytes bounds the body of POST /captures.
const maxRequestBytes = 4 << 20

// captureRequest is the part of BrowserHive's request that the stand-in uses;
// further members (behaviors, preload, viewport, policies, waits) pass unread.
type captureRequest struct {
	URL           string          `json:"url"`
	Labels        []string        `json:"labels"`
	CorrelationID string          `json:"correlationId"`
	Formats       map[string]bool `json:"captureFormats"`
	Signing       bool            `json:"signing"`
	Sink          *artifactSink   `json:"artifactSink"`
}

// artifactSink is where the artifacts go instead of the bucket.
type artifactSink struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// refusal says why a request is refused: no task id exists for it.
type refusal struct {
	message string
	fields  []invalidField
}

type invalidField struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

func invalid(path, rule string) *refusal {
	return &refusal{message: path + " " + rule, fields: []invalidField{{Path: path, Message: rule}}}
}

var formats = []string{"png", "webp", "html", "links", "mhtml", "wacz"}

// readRequest decodes and checks a request.
func readRequest(w http.ResponseWriter, r *http.Request) (captureRequest, *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		return captureRequest{}, invalid("/", "cannot be read or is over the size limit")
	}
	var req captureRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return captureRequest{}, invalid("/", fmt.Sprintf("must be a JSON object of the contract: %v", err))
	}
	if refused := httpURL("/url", req.URL); refused != nil {
		return captureRequest{}, refused
	}
	for _, format := range formats {
		if _, given := req.Formats[format]; !given {
			return captureRequest{}, invalid("/captureFormats/"+format, "is required")
		}
	}
	switch {
	case req.Formats["png"] || req.Formats["webp"] || req.Formats["mhtml"]:
		return captureRequest{}, invalid("/captureFormats", "must leave out png, webp and mhtml: the local stand-in renders nothing")
	case !req.Formats["html"] && !req.Formats["links"] && !req.Formats["wacz"]:
		return captureRequest{}, invalid("/captureFormats", "must ask for at least one format")
	}
	for i, label := range req.Labels {
		if label == "" {
			return captureRequest{}, invalid(fmt.Sprintf("/labels/%d", i), "must not be empty")
		}
	}
	if req.Sink != nil {
		if refused := httpURL("/artifactSink/url", req.Sink.URL); refused != nil {
			return captureRequest{}, refused
		}
		if req.Sink.Token == "" {
			return captureRequest{}, invalid("/artifactSink/token", "is required")
		}
	}
	return req, nil
}

// httpURL refuses what is no absolute http(s) URL.
func httpURL(path, value string) *refusal {
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return invalid(path, "must be an absolute http or https URL")
	}
	return nil
}

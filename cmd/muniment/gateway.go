package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// gateway is the product as an end user reaches it.
type gateway struct{ url, token string }

// gateway returns a client for whoever MUNIMENT_TOKEN is of, or for a subject of
// the local stack's issuer.
func (s shell) gateway(ctx context.Context, subject, organization string) (gateway, error) {
	url, err := s.required("MUNIMENT_GATEWAY_URL")
	if err != nil {
		return gateway{}, err
	}
	token := s.getenv("MUNIMENT_TOKEN")
	if subject != "" {
		issuer, err := s.required("MUNIMENT_ISSUER_URL")
		if err != nil {
			return gateway{}, err
		}
		organizations := []string{}
		if organization != "" {
			organizations = append(organizations, organization)
		}
		token, err = fetchToken(ctx, issuer, map[string]any{"subject": subject, "organizations": organizations, "ttl": "5m"})
		if err != nil {
			return gateway{}, err
		}
	}
	if token == "" {
		return gateway{}, errors.New("MUNIMENT_TOKEN is not set; beside a local stack, --subject does as well")
	}
	return gateway{url: url, token: token}, nil
}

// call does one request and reads the reply's object. An error is what the
// gateway says.
func (g gateway) call(ctx context.Context, method, path string, body, reply any) error {
	var content io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
		content = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, g.url+path, content)
	if err != nil {
		return fmt.Errorf("reading MUNIMENT_GATEWAY_URL: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking the gateway: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("reading the gateway's reply: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var refused struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(raw, &refused) != nil || refused.Error == "" {
			refused.Error = "a reply that is not the gateway's"
		}
		return &gatewayError{resp.StatusCode, refused.Error}
	}
	if err := json.Unmarshal(raw, reply); err != nil {
		return fmt.Errorf("reading the gateway's reply: %w", err)
	}
	return nil
}

// gatewayError is a refusal.
type gatewayError struct {
	status  int
	message string
}

func (e *gatewayError) Error() string {
	if e.status == http.StatusNotFound {
		return "the gateway says 404: not there, or not allowed"
	}
	return fmt.Sprintf("the gateway says %d: %s", e.status, e.message)
}

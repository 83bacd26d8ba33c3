// Package fga asks the authorization engine (OpenFGA) and writes its tuples,
// always with the store and the model pinned. It decides nothing itself: a
// question that got no clean answer is an error, never a no.
//
// The engine's client library retries with sleeps that no context ends, so its
// retries are off; each caller here has its own way to come again (a client
// hears UNAVAILABLE with a delay, the relay backs off).
package fga

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"time"

	openfga "github.com/openfga/go-sdk"
	"github.com/openfga/go-sdk/telemetry"

	"github.com/muniment/muniment/pkg/config"
)

// Client speaks to one store through one model. It is safe for concurrent use.
type Client struct {
	api      openfga.OpenFgaApi
	settings config.OpenFGA
	now      func() time.Time
}

// ulid is how the engine spells the ids of stores and models.
var ulid = regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{26}$`)

// New prepares a client; it does not connect. Limits that are not set have the
// engine's defaults. now measures how long the engine took for a listing.
func New(settings config.OpenFGA, now func() time.Time) (*Client, error) {
	if !ulid.MatchString(settings.StoreID) {
		return nil, fmt.Errorf("OPENFGA_STORE_ID %q is not an id of the authorization engine; muniment-model prints it", settings.StoreID)
	}
	if !ulid.MatchString(settings.ModelID) {
		return nil, fmt.Errorf("OPENFGA_MODEL_ID %q is not an id of the authorization engine; muniment-model prints it", settings.ModelID)
	}
	settings.Timeout = cmp.Or(settings.Timeout, 3*time.Second)
	settings.ListLimit = cmp.Or(settings.ListLimit, 1000)
	settings.ListDeadline = cmp.Or(settings.ListDeadline, 3*time.Second)
	headers := map[string]string{}
	if settings.Token != "" {
		headers["Authorization"] = "Bearer " + settings.Token
	}
	cfg, err := openfga.NewConfiguration(openfga.Configuration{
		ApiUrl:         settings.APIURL,
		DefaultHeaders: headers,
		UserAgent:      "muniment",
		HTTPClient:     &http.Client{Transport: transport()},
		RetryParams:    &openfga.RetryParams{MaxRetry: 0, MinWaitInMs: 1},
		Telemetry:      &telemetry.Configuration{Metrics: &telemetry.MetricsConfiguration{}},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the client of the authorization engine: %w", err)
	}
	return &Client{api: openfga.NewAPIClient(cfg).OpenFgaApi, settings: settings, now: now}, nil
}

// transport keeps as many connections as calls run at once; the standard
// library's two idle ones per host would open a new one for most checks.
func transport() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       30 * time.Second,
		TLSHandshakeTimeout:   2 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}

// limit bounds one call of the engine.
func (c *Client) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.settings.Timeout)
}

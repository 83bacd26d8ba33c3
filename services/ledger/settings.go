package main

import (
	"fmt"
	"time"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/identity"
)

const prefix = "MUNIMENT_LEDGER_"

type settings struct {
	config.Service
	config.Database
	config.Store
	config.OpenFGA
	Identity identity.Settings

	// HTTPAddress is where the gateway listens, host:port, in plain HTTP: what
	// stands in front of it ends TLS. RequestTimeout bounds one call behind a
	// request.
	HTTPAddress    string        `env:"HTTP_ADDRESS,required"`
	RequestTimeout time.Duration `env:"HTTP_REQUEST_TIMEOUT" envDefault:"5m"`
	// SignerAddress and FeedAddress are the gRPC servers behind the gateway,
	// host:port, several with commas between. Without one its routes are unknown.
	SignerAddress string `env:"SIGNER_ADDRESS"`
	FeedAddress   string `env:"FEED_ADDRESS"`

	// RelayAddress is the outbox relay's, by which a reply says whether the engine
	// has a change yet. Without it, replies say that it has not.
	RelayAddress string `env:"RELAY_ADDRESS"`

	// AllowedBuckets are those whose objects may be admitted, and signed later;
	// without it, S3_BUCKET alone.
	AllowedBuckets []string `env:"ALLOWED_BUCKETS"`
	// Signing asks BrowserHive to sign captures.
	Signing bool `env:"SIGNING"`

	// WebhookURL and WebhookToken are the workflow engine's: both or neither.
	// Without them there are no crawls, and their routes answer 404.
	WebhookURL     string        `env:"WEBHOOK_URL"`
	WebhookToken   string        `env:"WEBHOOK_TOKEN_FILE,file"`
	WebhookTimeout time.Duration `env:"WEBHOOK_TIMEOUT" envDefault:"10s"`

	// SinkOrigin is where BrowserHive reaches the gateway, such as
	// https://muniment.example; SinkSecret (32 bytes or more) makes its tokens:
	// both or neither. SinkUploads bounds uploads at once, SinkTimeout each.
	SinkOrigin  string        `env:"SINK_ORIGIN"`
	SinkSecret  string        `env:"SINK_SECRET_FILE,file"`
	SinkUploads int           `env:"SINK_UPLOADS" envDefault:"4"`
	SinkTimeout time.Duration `env:"SINK_TIMEOUT" envDefault:"15m"`

	// A level must be reported within LevelBase and, for each of its pages,
	// LevelPerPage and the crawl's spacing; then its crawl is closed.
	LevelBase    time.Duration `env:"LEVEL_BASE" envDefault:"10m"`
	LevelPerPage time.Duration `env:"LEVEL_PER_PAGE" envDefault:"60s"`

	// ManifestConcurrency manifests of a level are read at once, each within
	// ManifestTimeout and all within LevelReadTimeout; the reconciler does the
	// rest. LinksConcurrency links files are, each of up to 32 MiB, within
	// LinksTimeout, and all of a level's within LevelReadTimeout too.
	ManifestConcurrency int           `env:"MANIFEST_CONCURRENCY" envDefault:"16"`
	ManifestTimeout     time.Duration `env:"MANIFEST_TIMEOUT" envDefault:"5s"`
	LevelReadTimeout    time.Duration `env:"LEVEL_READ_TIMEOUT" envDefault:"45s"`
	LinksConcurrency    int           `env:"LINKS_CONCURRENCY" envDefault:"4"`
	LinksTimeout        time.Duration `env:"LINKS_TIMEOUT" envDefault:"15s"`
}

// Validate checks the relations between the settings.
func (s *settings) Validate(prefix string) error {
	for _, part := range []config.Validator{s.Service, s.Database, s.Store, s.OpenFGA, s.Identity} {
		if err := part.Validate(prefix); err != nil {
			return err
		}
	}
	for _, pair := range []struct{ url, secret, urlName, secretName string }{
		{s.WebhookURL, s.WebhookToken, "WEBHOOK_URL", "WEBHOOK_TOKEN_FILE"},
		{s.SinkOrigin, s.SinkSecret, "SINK_ORIGIN", "SINK_SECRET_FILE"},
	} {
		if (pair.url == "") != (pair.secret == "") {
			return fmt.Errorf("%s%s and %s%s come together: set both or neither", prefix, pair.urlName, prefix, pair.secretName)
		}
		if pair.url != "" {
			if err := config.HTTPURL(prefix+pair.urlName, pair.url); err != nil {
				return err
			}
		}
	}
	for name, positive := range map[string]bool{
		"WEBHOOK_TIMEOUT": s.WebhookTimeout > 0, "SINK_TIMEOUT": s.SinkTimeout > 0, "SINK_UPLOADS": s.SinkUploads > 0,
		"LEVEL_BASE": s.LevelBase > 0, "LEVEL_PER_PAGE": s.LevelPerPage >= 0,
		"MANIFEST_CONCURRENCY": s.ManifestConcurrency > 0, "MANIFEST_TIMEOUT": s.ManifestTimeout > 0, "LEVEL_READ_TIMEOUT": s.LevelReadTimeout > 0,
		"LINKS_CONCURRENCY": s.LinksConcurrency > 0, "LINKS_TIMEOUT": s.LinksTimeout > 0, "HTTP_REQUEST_TIMEOUT": s.RequestTimeout >= time.Second,
	} {
		if !positive {
			return fmt.Errorf("%s%s is too small", prefix, name)
		}
	}
	switch {
	case s.SinkSecret != "" && len(s.SinkSecret) < 32:
		return fmt.Errorf("%sSINK_SECRET_FILE must hold at least 32 bytes", prefix)
	case s.SinkOrigin != "" && s.WebhookURL == "":
		return fmt.Errorf("%sSINK_ORIGIN is set without %sWEBHOOK_URL: only crawls use the sink", prefix, prefix)
	case 2*s.LevelReadTimeout >= s.RequestTimeout:
		return fmt.Errorf("%sLEVEL_READ_TIMEOUT (%s) must be shorter than half of %sHTTP_REQUEST_TIMEOUT (%s)", prefix, s.LevelReadTimeout, prefix, s.RequestTimeout)
	}
	return nil
}

// allowedBuckets are the buckets whose objects may be admitted.
func (s *settings) allowedBuckets() []string {
	if len(s.AllowedBuckets) == 0 {
		return []string{s.Bucket}
	}
	return s.AllowedBuckets
}

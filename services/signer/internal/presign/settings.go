package presign

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/muniment/muniment/pkg/config"
)

// The bounds of a URL's lifetime. S3 takes no longer one; a shorter one may be
// over before it arrives, with clocks as they are.
const (
	MinLifetime = 60 * time.Second
	MaxLifetime = 7 * 24 * time.Hour
)

// Settings says what is signed, for which host and with what.
type Settings struct {
	// PublicEndpoint is the store's URL as browsers reach it. Signed URLs begin
	// with it; the host is part of the signature and cannot be edited later.
	PublicEndpoint string `env:"S3_PUBLIC_ENDPOINT,required"`
	// Endpoint is the store's URL inside the cluster. Nothing is signed for it
	// and signing does not call it; its clock is compared with ours.
	Endpoint string `env:"S3_ENDPOINT,required"`
	// Region is required: without one, signers ask the store where a bucket is.
	Region string `env:"S3_REGION,required"`
	// Buckets are those whose objects may be signed, with commas between.
	Buckets []string `env:"S3_BUCKET,required"`

	// The credentials' files are read again and again, so that renewing them
	// needs no restart. SessionTokenFile and ExpiryFile (RFC 3339) go with
	// temporary ones.
	AccessKeyFile    string `env:"S3_ACCESS_KEY_FILE,required"`
	SecretKeyFile    string `env:"S3_SECRET_KEY_FILE,required"`
	SessionTokenFile string `env:"S3_SESSION_TOKEN_FILE"`
	ExpiryFile       string `env:"S3_CREDENTIALS_EXPIRY_FILE"`

	// Lifetime of a URL, 60s to 168h; a URL never outlives its credentials.
	Lifetime time.Duration `env:"URL_LIFETIME" envDefault:"300s"`
}

// Validate checks forms and bounds.
func (s Settings) Validate(prefix string) error {
	if err := config.HTTPURL(prefix+"S3_ENDPOINT", s.Endpoint); err != nil {
		return err
	}
	if err := publicEndpoint(prefix+"S3_PUBLIC_ENDPOINT", s.PublicEndpoint); err != nil {
		return err
	}
	if slices.Contains(s.Buckets, "") {
		return fmt.Errorf("%sS3_BUCKET names an empty bucket", prefix)
	}
	if s.Lifetime < MinLifetime || s.Lifetime > MaxLifetime || s.Lifetime%time.Second != 0 {
		return fmt.Errorf("%sURL_LIFETIME (%s) must be whole seconds between %s and %s", prefix, s.Lifetime, MinLifetime, MaxLifetime)
	}
	return nil
}

// publicEndpoint refuses what would not be signed as it is fetched: a path
// (object stores sign from the root) and a default port (browsers leave it out
// of the Host header).
func publicEndpoint(name, value string) error {
	if err := config.HTTPURL(name, value); err != nil {
		return err
	}
	u, err := url.Parse(value)
	if err != nil {
		return fmt.Errorf("%s must be a URL", name)
	}
	if (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("%s must be scheme and host only", name)
	}
	if (u.Scheme == "http" && u.Port() == "80") || (u.Scheme == "https" && u.Port() == "443") {
		return fmt.Errorf("%s must leave out the default port %s, as browsers do", name, u.Port())
	}
	return nil
}

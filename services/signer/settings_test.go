package main

import (
	"strings"
	"testing"

	"github.com/muniment/muniment/pkg/config"
)

// usable is an environment in which nothing is wrong.
func usable(t *testing.T) map[string]string {
	t.Helper()
	key := secretFile(t, "k")
	return map[string]string{
		"GRPC_ADDRESS": "127.0.0.1:0", "DEBUG_ADDRESS": "127.0.0.1:0",
		"TLS_CERT_FILE": "c", "TLS_KEY_FILE": "k", "TLS_CA_FILE": "a",
		"DATABASE_URL":    "postgres://muniment_signer@localhost/muniment",
		"OPENFGA_API_URL": "http://localhost:8080", "OPENFGA_STORE_ID": "s", "OPENFGA_MODEL_ID": "m",
		"S3_ENDPOINT": "http://s3.internal:9000", "S3_PUBLIC_ENDPOINT": "https://s3.example.org", "S3_REGION": "eu", "S3_BUCKET": "b",
		"S3_ACCESS_KEY_FILE": key, "S3_SECRET_KEY_FILE": key, "LEDGER_ADDRESS": "localhost:1",
	}
}

func TestBadSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ value, want string }{
		"S3_REGION":           {"", "MUNIMENT_SIGNER_S3_REGION"}, // T14
		"S3_PUBLIC_ENDPOINT":  {"", "MUNIMENT_SIGNER_S3_PUBLIC_ENDPOINT"},
		"URL_LIFETIME":        {"30s", "MUNIMENT_SIGNER_URL_LIFETIME"}, // T16
		"SERVICE_IDENTITIES":  {"feed-archiver:a b", "MUNIMENT_SIGNER_SERVICE_IDENTITIES"},
		"OPENFGA_MODEL_ID":    {"", "MUNIMENT_SIGNER_OPENFGA_MODEL_ID"}, // T20
		"URL_LIFETYME":        {"300s", "MUNIMENT_SIGNER_URL_LIFETYME"},
		"DEV_HEADERS_FORCE":   {"true", "MUNIMENT_SIGNER_DEV_HEADERS_FORCE"},
		"S3_ENDPOINT":         {"s3.internal", "MUNIMENT_SIGNER_S3_ENDPOINT"},
		"SHUTDOWN_TIMEOUT":    {"1s", "MUNIMENT_SIGNER_SHUTDOWN_TIMEOUT"},
		"MAX_CONNECTION_AGE":  {"1ms", "MUNIMENT_SIGNER_MAX_CONNECTION_AGE"},
		"SERVICE_IDENTITIES2": {"x", "MUNIMENT_SIGNER_SERVICE_IDENTITIES2"},
	} {
		environ := usable(t)
		environ[name] = test.value
		err := load(environ)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%q: %v, want an error that names %s", name, test.value, err, test.want)
		}
	}
	environ := usable(t)
	environ["SERVICE_IDENTITIES"] = "ledger:anybody"
	if err := load(environ); err == nil || !strings.Contains(err.Error(), "gateway") {
		t.Errorf("the gateway as a service identity: %v", err)
	}
	if err := load(usable(t)); err != nil {
		t.Errorf("usable settings: %v", err)
	}
}

func load(environ map[string]string) error {
	var lines []string
	for name, value := range environ {
		lines = append(lines, prefix+name+"="+value)
	}
	var cfg settings
	return config.Load(prefix, lines, &cfg, nil)
}

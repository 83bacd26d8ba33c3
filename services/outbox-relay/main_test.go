package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/testkit"
)

// A setting that is missing, unknown or at odds with another stops the start
// with one line that names it.
func TestSettings(t *testing.T) {
	t.Parallel()
	files := testkit.Certificates(t).Files("outbox-relay")
	environ := []string{
		"MUNIMENT_RELAY_GRPC_ADDRESS=127.0.0.1:0", "MUNIMENT_RELAY_DEBUG_ADDRESS=127.0.0.1:0",
		"MUNIMENT_RELAY_TLS_CERT_FILE=" + files.Cert, "MUNIMENT_RELAY_TLS_KEY_FILE=" + files.Key, "MUNIMENT_RELAY_TLS_CA_FILE=" + files.CA,
		"MUNIMENT_RELAY_DATABASE_URL=postgres://muniment_relay@127.0.0.1:1/muniment",
		"MUNIMENT_RELAY_OPENFGA_API_URL=http://127.0.0.1:1",
		"MUNIMENT_RELAY_OPENFGA_STORE_ID=01ARZ3NDEKTSV4RRFFQ69G5FAV", "MUNIMENT_RELAY_OPENFGA_MODEL_ID=01ARZ3NDEKTSV4RRFFQ69G5FAV",
	}
	for setting, named := range map[string]string{
		"MUNIMENT_RELAY_LEAZE=1s":                "MUNIMENT_RELAY_LEAZE",
		"MUNIMENT_RELAY_LEASE=8s":                "lease",
		"MUNIMENT_RELAY_POLL_INTERVAL=6s":        "poll interval",
		"MUNIMENT_RELAY_OPENFGA_TIMEOUT=4s":      "at most 3s",
		"MUNIMENT_RELAY_DATABASE_MODE=session":   "DATABASE_MODE",
		"MUNIMENT_RELAY_OPENFGA_STORE_ID=latest": "OPENFGA_STORE_ID",
		"MUNIMENT_RELAY_DATABASE_URL=mysql://x":  "DATABASE_URL",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := run(ctx, append(environ, setting))
		cancel()
		if err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

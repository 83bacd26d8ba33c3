package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muniment/muniment/pkg/config"
)

func environ(extra ...string) []string {
	return append([]string{
		"MUNIMENT_FEED_GRPC_ADDRESS=127.0.0.1:1", "MUNIMENT_FEED_DEBUG_ADDRESS=127.0.0.1:2",
		"MUNIMENT_FEED_TLS_CERT_FILE=c", "MUNIMENT_FEED_TLS_KEY_FILE=k", "MUNIMENT_FEED_TLS_CA_FILE=a",
		"MUNIMENT_FEED_DATABASE_URL=postgres://muniment_feed@localhost/muniment",
		"MUNIMENT_FEED_CONTACT=feeds@example.org",
	}, extra...)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	var c Config
	err := config.Load(prefix, environ("MUNIMENT_FEED_NWS_ALERTS_URL=http://127.0.0.1:3/alerts/active",
		"MUNIMENT_FEED_SOURCES=nws_alerts,usgs_earthquakes", "MUNIMENT_FEED_PUSHERS=mapper=nws_alerts,usgs_earthquakes;other=nhc_surge"), &c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Feeds.NWSAlerts.URL == "" || len(c.Poll.Sources) != 2 || len(c.Server.Pushers["mapper"]) != 2 || len(c.Server.Pushers["other"]) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestBadConfigNamesTheSetting(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{
		"MUNIMENT_FEED_SOURCES":         "MUNIMENT_FEED_SOURCES=nws_alert",
		"MUNIMENT_FEED_NWS_ALERT_URL":   "MUNIMENT_FEED_NWS_ALERT_URL=http://127.0.0.1",
		"MUNIMENT_FEED_NWS_ALERTS_URL":  "MUNIMENT_FEED_NWS_ALERTS_URL=ftp://x",
		"MUNIMENT_FEED_PUSHERS":         "MUNIMENT_FEED_PUSHERS=mapper",
		"MUNIMENT_FEED_CLAIM_LEASE":     "MUNIMENT_FEED_CLAIM_LEASE=1ms",
		"MUNIMENT_FEED_MAX_PUSH_BYTES":  "MUNIMENT_FEED_MAX_PUSH_BYTES=0",
		"MUNIMENT_FEED_CONTACT":         "MUNIMENT_FEED_CONTACT=a (b)",
		"MUNIMENT_FEED_DATABASE_MODE":   "MUNIMENT_FEED_DATABASE_MODE=x",
		"MUNIMENT_FEED_SHUTDOWN_TIMEOU": "MUNIMENT_FEED_SHUTDOWN_TIMEOUT=1s",
	} {
		var c Config
		if err := config.Load(prefix, environ(bad), &c, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// The wiring reads top to bottom in one file of bounded length.
func TestMainStaysSmall(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(".", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n >= 150 {
		t.Errorf("main.go has %d lines", n)
	}
}

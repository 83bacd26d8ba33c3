package testkit

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// CachingOpenFGA starts an engine of the test's own, in memory, with every cache
// on and long lives for what they hold.
func CachingOpenFGA(t testing.TB) FGA {
	t.Helper()
	// The engines stand beside the folder of the programs.
	program := filepath.Join(filepath.Dir(setting(t, "BIN")), "engines", "openfga")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("needs the engine's program (%v): run 'make test'", err)
	}
	httpAddress, grpcAddress := FreeAddress(t), FreeAddress(t)
	engine := exec.Command(program, "run", "--datastore-engine", "memory",
		"--http-addr", httpAddress, "--grpc-addr", grpcAddress, "--playground-enabled=false", "--metrics-enabled=false", "--log-level", "error",
		"--check-query-cache-enabled", "--check-query-cache-ttl", "1h",
		"--check-iterator-cache-enabled", "--check-iterator-cache-ttl", "1h",
		"--list-objects-iterator-cache-enabled", "--list-objects-iterator-cache-ttl", "1h")
	var log bytes.Buffer
	engine.Stdout, engine.Stderr = &log, &log
	if err := engine.Start(); err != nil {
		t.Fatalf("starting the caching engine: %v", err)
	}
	t.Cleanup(func() {
		_ = engine.Process.Kill()
		_ = engine.Wait()
		if t.Failed() {
			t.Logf("the caching engine said:\n%s", log.String())
		}
	})
	fga := FGA{APIURL: "http://" + httpAddress}
	Eventually(t, 20*time.Second, func() (bool, string) {
		resp, err := http.Get(fga.APIURL + "/healthz")
		if err != nil {
			return false, err.Error()
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK, resp.Status
	})
	return fga.fresh(t)
}

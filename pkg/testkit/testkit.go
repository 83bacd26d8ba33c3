// Package testkit gives tests the real engines: a Postgres database of their
// own cloned from a migrated template, an OpenFGA store, an S3 bucket, besides
// certificates and tokens. The engines are started once, by `make test`, and
// found through MUNIMENT_TEST_ variables. It is for tests only and knows no
// service.
package testkit

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/devissuer"
)

// setting returns the MUNIMENT_TEST_ variable, or skips the test: without
// engines there is nothing to test against. Under `make test`, which starts
// them, their absence is a failure.
func setting(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv("MUNIMENT_TEST_" + name)
	if value != "" {
		return value
	}
	if os.Getenv("MUNIMENT_TEST_REQUIRED") == "1" {
		t.Fatalf("MUNIMENT_TEST_%s is not set", name)
	}
	t.Skipf("needs the test engines (MUNIMENT_TEST_%s is not set): run 'make test', or 'muniment-local engines' and source .local/test.env", name)
	return ""
}

// Soak returns stated, the volume that a requirement names, under `make soak`,
// and small otherwise: the same test, short enough for every run.
func Soak(small, stated int) int {
	if os.Getenv("MUNIMENT_SOAK") == "1" {
		return stated
	}
	return small
}

// Eventually calls check until it is done, and fails the test with the last
// state when that takes longer than timeout.
func Eventually(t testing.TB, timeout time.Duration, check func() (done bool, state string)) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		done, state := check()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", timeout, state)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Binary is the path of one of the repository's programs, built with the race
// detector, for tests that kill it.
func Binary(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(setting(t, "BIN"), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the program %s is not built (%v): run 'make test', or build it with 'go build -race -o %s'", name, err, path)
	}
	return path
}

// Issuer starts an issuer of tokens that ends with the test.
func Issuer(t testing.TB) *devissuer.Issuer {
	t.Helper()
	issuer, err := devissuer.Start(t.Context(), "127.0.0.1:0", time.Now)
	if err != nil {
		t.Fatalf("starting the issuer: %v", err)
	}
	t.Cleanup(issuer.Close)
	return issuer
}

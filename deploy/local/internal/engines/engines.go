// Package engines starts the real things that the product stands on: Postgres,
// OpenFGA and an S3 store (versitygw), each in a folder of its own and on
// loopback ports that were free. It is for local stacks and tests; how the
// engines run in production is their operators' business.
package engines

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/muniment/muniment/deploy/local/internal/process"
)

// Say prints a line of progress.
type Say func(format string, args ...any)

// Engines are the three of one stack.
type Engines struct {
	Postgres *Postgres
	OpenFGA  *OpenFGA
	Store    *Store
}

// Start starts all three, building what is not built yet. The processes belong
// to set and end with it; Close takes back what lies outside of it.
func Start(ctx context.Context, set *process.Set, instance *process.Instance, sayf Say) (*Engines, error) {
	if err := Build(ctx, instance.Root, sayf); err != nil {
		return nil, err
	}
	e := &Engines{}
	var err error
	if e.Postgres, err = startPostgres(ctx, set, instance, sayf); err != nil {
		return nil, err
	}
	if e.OpenFGA, err = startOpenFGA(ctx, set, instance, e.Postgres, sayf); err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	if e.Store, err = startStore(ctx, set, instance, sayf); err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return e, nil
}

// Close drops the databases that were made on an external server.
func (e *Engines) Close(ctx context.Context) error { return e.Postgres.close(ctx) }

// secret returns the secret kept in the named file of the checkout's .local
// folder, and makes it at the first call. It is kept because roles belong to a
// whole Postgres cluster: two stacks on one external server must agree.
func secret(root, name string) (string, error) {
	file := filepath.Join(root, ".local", "secrets", name)
	if content, err := os.ReadFile(file); err == nil {
		return strings.TrimSpace(string(content)), nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", fmt.Errorf("making the folder of secrets: %w", err)
	}
	// Two launchers may get here at once: the first one's secret counts.
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return secret(root, name)
	}
	if err != nil {
		return "", fmt.Errorf("creating a secret: %w", err)
	}
	text := rand.Text()
	_, err = f.WriteString(text + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("writing a secret: %w", err)
	}
	return text, nil
}

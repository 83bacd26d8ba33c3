package windmill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// builder builds scripts into folder, once for each content.
type builder struct {
	goCommand string
	folder    string
}

// build returns the script's executable.
func (b builder) build(ctx context.Context, s *script) (string, error) {
	files := map[string][]byte{
		"go.mod":              []byte(s.goMod),
		"main.go":             []byte(mainSource),
		"inner/inner_main.go": s.source,
		"inner/runner.go":     []byte(s.runnerSource()),
	}
	sum := sha256.New()
	for _, name := range []string{"go.mod", "main.go", "inner/inner_main.go", "inner/runner.go"} {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(files[name]), files[name])
	}
	target := filepath.Join(b.folder, hex.EncodeToString(sum.Sum(nil)))
	if _, err := os.Stat(target); err == nil {
		return target, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("looking for the built script: %w", err)
	}
	work, err := os.MkdirTemp(b.folder, "build-")
	if err != nil {
		return "", fmt.Errorf("making the build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // a leftover harms nothing
	if err := os.Mkdir(filepath.Join(work, "inner"), 0o755); err != nil {
		return "", fmt.Errorf("making the build folder: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(work, filepath.FromSlash(name)), content, 0o600); err != nil {
			return "", fmt.Errorf("writing %s: %w", name, err)
		}
	}
	cmd := exec.CommandContext(ctx, b.goCommand, "build", "-trimpath", "-o", "main", ".")
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", s.path, err, bytes.TrimSpace(output))
	}
	// The rename makes the cache safe against a second stand-in and a kill.
	if err := os.Rename(filepath.Join(work, "main"), target); err != nil {
		return "", fmt.Errorf("keeping the built script: %w", err)
	}
	return target, nil
}

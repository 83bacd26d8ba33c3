package engines

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// binaries are the engines that are built from the pinned module deploy/tools/engines.
var binaries = []struct{ name, pkg, about string }{
	{"openfga", "github.com/openfga/openfga/cmd/openfga", "OpenFGA"},
	{"versitygw", "github.com/versity/versitygw/cmd/versitygw", "versitygw (S3)"},
}

// binary is the path of a built engine.
func binary(root, name string) string { return filepath.Join(root, ".local", "engines", name) }

// Build builds the engines into .local/engines, unless they were built from the
// same pins. The first build takes minutes: it says what it does.
func Build(ctx context.Context, root string, sayf Say) error {
	module := filepath.Join(root, "deploy", "tools", "engines")
	pins, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return fmt.Errorf("reading the engines' pins: %w", err)
	}
	sum := sha256.Sum256(pins)
	stamp := hex.EncodeToString(sum[:])
	for _, b := range binaries {
		target := binary(root, b.name)
		if have, err := os.ReadFile(target + ".pins"); err == nil && string(have) == stamp {
			if _, err := os.Stat(target); err == nil {
				continue
			}
		}
		sayf("building %s from deploy/tools/engines (the first time takes a few minutes)", b.about)
		if err := build(ctx, module, target, b.pkg, sayf); err != nil {
			return fmt.Errorf("building %s: %w", b.about, err)
		}
		if err := os.WriteFile(target+".pins", []byte(stamp), 0o644); err != nil {
			return fmt.Errorf("noting the build of %s: %w", b.about, err)
		}
	}
	return nil
}

func build(ctx context.Context, module, target, pkg string, sayf Say) error {
	begun := time.Now()
	var output bytes.Buffer
	// The workspace knows nothing of this module: its pins are its own.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", target, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = &output, &output
	done := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		ticker := time.NewTicker(15 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				sayf("  still building (%s)", time.Since(begun).Round(time.Second))
			case <-done:
				return
			}
		}
	})
	err := cmd.Run()
	close(done)
	ticking.Wait()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(output.Bytes()))
	}
	sayf("  built in %s", time.Since(begun).Round(time.Second))
	return nil
}

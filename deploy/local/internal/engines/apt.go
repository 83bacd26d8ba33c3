package engines

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// aptTries is how often an installation is tried: mirrors have their moments.
const aptTries = 4

// aptInstall installs packages on Debian and its kin, as root.
func aptInstall(ctx context.Context, sayf Say, packages ...string) error {
	var err error
	for try := range aptTries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Duration(try) * 5 * time.Second):
			}
		}
		sayf("installing %s with apt-get", strings.Join(packages, ", "))
		if err = apt(ctx, "update"); err != nil {
			continue
		}
		if err = apt(ctx, append([]string{"install", "-y", "--no-install-recommends"}, packages...)...); err == nil {
			return nil
		}
	}
	return fmt.Errorf("installing %s: %w", strings.Join(packages, ", "), err)
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, lines[len(lines)-1])
	}
	return nil
}

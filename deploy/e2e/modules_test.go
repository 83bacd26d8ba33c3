package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// T47: module commands ignore the workspace file: each module builds by what its
// own go.mod says. The flags are those of `make build`, whose work this shares;
// `make lint` compiles the tests in the same way.
func TestT47EachModuleBuildsAlone(t *testing.T) {
	t.Parallel()
	for _, module := range []string{"cmd", "deploy", "migrations", "pkg", "services"} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, "./...")
		cmd.Dir = filepath.Join("..", "..", module)
		cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", module, err, out)
		}
	}
}

package engines

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
)

// Compiler sees to it that there is a C compiler, which the race detector needs:
// as root on Debian it installs one.
func Compiler(ctx context.Context, sayf Say) error {
	compiler := "gcc"
	if cc := strings.Fields(os.Getenv("CC")); len(cc) > 0 {
		compiler = cc[0]
	}
	for _, name := range []string{compiler, "cc", "clang"} {
		if _, err := exec.LookPath(name); err == nil {
			return nil
		}
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return errors.New("the race detector needs a C compiler: install one with your system's package manager ('sudo apt-get install gcc libc6-dev' on Debian)")
	}
	return aptInstall(ctx, sayf, "gcc", "libc6-dev")
}

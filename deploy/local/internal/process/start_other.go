//go:build !linux

package process

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// attributes puts a child into a process group of its own, so that Ctrl-C
// reaches the launcher alone. Only Linux ends children with their parent; here
// the next start clears them.
func attributes(spec Spec) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: spec.User}
}

func start(cmd *exec.Cmd) error { return cmd.Start() }

// startTime tells two processes with the same pid apart, or returns "" when
// there is none with that pid.
func startTime(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("looking at process %d: %w", pid, err)
	}
	return strings.TrimSpace(string(out)), nil
}

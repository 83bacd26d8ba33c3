package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// attributes puts a child into a process group of its own, so that Ctrl-C
// reaches the launcher alone and the launcher decides the order of the end, and
// asks the kernel to end it with the launcher.
func attributes(spec Spec) *syscall.SysProcAttr {
	dying := spec.Dying
	if dying == 0 {
		dying = syscall.SIGKILL
	}
	return &syscall.SysProcAttr{Setpgid: true, Credential: spec.User, Pdeathsig: dying}
}

type startRequest struct {
	cmd    *exec.Cmd
	result chan error
}

// starter is the one thread that starts children. The kernel's death signal
// follows the thread that started a child, not the process, and Go ends threads
// as it likes; this one never ends.
var starter = sync.OnceValue(func() chan<- startRequest {
	requests := make(chan startRequest)
	go func() {
		runtime.LockOSThread()
		for r := range requests {
			r.result <- r.cmd.Start()
		}
	}()
	return requests
})

func start(cmd *exec.Cmd) error {
	r := startRequest{cmd: cmd, result: make(chan error, 1)}
	starter() <- r
	return <-r.result
}

// startTime tells two processes with the same pid apart: the kernel's own
// record of when it was started, or "" when there is none with that pid.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("looking at process %d: %w", pid, err)
	}
	// The second field is the name in parentheses and may hold anything.
	_, after, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " ")
	fields := strings.Fields(after)
	const state, started = 0, 19 // fields 3 and 22 of proc(5)
	if len(fields) <= started {
		return "", fmt.Errorf("looking at process %d: /proc holds %d fields", pid, len(fields))
	}
	if fields[state] == "Z" {
		return "", nil
	}
	return fields[started], nil
}

// Package e2e tests the launcher and the demo on real programs, as a developer
// meets them. It holds tests only.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/testkit"
)

// launcher is a running muniment-local.
type launcher struct {
	cmd    *exec.Cmd
	output *lockedBuffer
	done   chan struct{}
	root   string
	name   string
}

// start runs a subcommand with the programs that carry the race detector, on a
// stack of its own name.
func start(t *testing.T, name, subcommand string, args ...string) *launcher {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	program := testkit.Binary(t, "muniment-local")
	args = append([]string{subcommand, "--name", name, "--bin", filepath.Dir(program)}, args...)
	l := &launcher{cmd: exec.Command(program, args...), output: &lockedBuffer{}, done: make(chan struct{}), root: root, name: name}
	l.cmd.Dir = root
	l.cmd.Stdout, l.cmd.Stderr = l.output, l.output
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = l.cmd.Wait() // the test looks at ProcessState
		close(l.done)
	}()
	t.Cleanup(func() {
		_ = l.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-l.done:
		case <-time.After(time.Minute):
			_ = l.cmd.Process.Kill()
			<-l.done
		}
	})
	return l
}

// says waits until the launcher has printed the text.
func (l *launcher) says(t *testing.T, text string) {
	t.Helper()
	testkit.Eventually(t, 3*time.Minute, func() (bool, string) {
		select {
		case <-l.done:
			if !strings.Contains(l.output.String(), text) {
				t.Fatalf("the launcher ended without saying %q:\n%s", text, l.output)
			}
		default:
		}
		return strings.Contains(l.output.String(), text), "waiting for " + text + ":\n" + l.output.String()
	})
}

// ends waits for the launcher's end and returns its status.
func (l *launcher) ends(t *testing.T) int {
	t.Helper()
	select {
	case <-l.done:
		return l.cmd.ProcessState.ExitCode()
	case <-time.After(2 * time.Minute):
		t.Fatalf("the launcher does not end:\n%s", l.output)
		return 0
	}
}

// children are the pids of the stack's processes by name.
func (l *launcher) children(t *testing.T) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.root, ".local", "stacks", l.name, "run", "*.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pids := map[string]int{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var record struct{ PID int }
		if err := json.Unmarshal(content, &record); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		pids[strings.TrimSuffix(filepath.Base(file), ".pid")] = record.PID
	}
	return pids
}

func TestLauncher(t *testing.T) {
	t.Parallel()
	const name = "e2e-launcher"
	first := start(t, name, "up")
	first.says(t, "the stack is up")
	before := first.children(t)
	if len(before) < 12 {
		t.Fatalf("only %d processes run: %v", len(before), before)
	}

	// A live stack is no leftover.
	second := start(t, name, "up")
	if status := second.ends(t); status != 1 || !strings.Contains(second.output.String(), "is running") {
		t.Errorf("a second start ends with %d and says %s", status, second.output)
	}

	// kill -9: the next start finds nothing of it alive, or ends it.
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.ends(t)
	third := start(t, name, "up")
	third.says(t, "the stack is up")
	for child, pid := range before {
		if runs(pid) && !isOneOf(third.children(t), pid) {
			t.Errorf("%s (process %d) of the killed launcher still runs", child, pid)
		}
	}

	// A child dies: everything stops, and it is named with its last lines.
	if err := syscall.Kill(third.children(t)["signer-1"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := third.ends(t); status != 1 {
		t.Errorf("the launcher ends with %d", status)
	}
	for _, want := range []string{"signer-1 died", "its last lines:"} {
		if !strings.Contains(third.output.String(), want) {
			t.Errorf("the launcher does not say %q:\n%s", want, third.output)
		}
	}
	if left := third.children(t); len(left) > 0 {
		t.Errorf("pid files are left: %v", left)
	}
}

// runs says whether a process is alive, and not merely waiting to be reaped by
// whoever inherited it: such a one has no command line any more.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err != nil || len(line) > 0
}

func isOneOf(children map[string]int, pid int) bool {
	for _, other := range children {
		if other == pid {
			return true
		}
	}
	return false
}

func TestLauncherNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	address := taken.Addr().String()
	for _, test := range []struct {
		about string
		args  []string
		want  string
	}{
		{"port in use", []string{"--gateway", address}, "cannot listen on " + address},
		{"unknown flag", []string{"--gatway", address}, "-gatway"},
		{"no program", []string{"--bin", t.TempDir()}, "muniment-migrate"},
		{"replicas", []string{"--replicas", "0"}, "--replicas"},
	} {
		t.Run(test.about, func(t *testing.T) {
			t.Parallel()
			l := start(t, "e2e-"+strings.ReplaceAll(test.about, " ", "-"), "up", test.args...)
			if status := l.ends(t); status != 1 {
				t.Errorf("ends with %d, want 1", status)
			}
			if said := l.output.String(); !strings.Contains(said, test.want) || strings.Contains(said, "goroutine ") {
				t.Errorf("says %s\nwant a sentence with %q", said, test.want)
			}
		})
	}
}

// TestDemo is the main job, end to end; under soak with two of each service too.
func TestDemo(t *testing.T) {
	for _, replicas := range []string{"1", "2"}[:testkit.Soak(1, 2)] {
		t.Run("replicas "+replicas, func(t *testing.T) {
			l := start(t, "e2e-demo-"+replicas, "demo", "--replicas", replicas)
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
			defer cancel()
			select {
			case <-l.done:
			case <-ctx.Done():
				t.Fatalf("the demo takes too long:\n%s", l.output)
			}
			if status := l.cmd.ProcessState.ExitCode(); status != 0 {
				t.Fatalf("the demo ends with %d:\n%s", status, l.output)
			}
		})
	}
}

// lockedBuffer is written by a process and read by the test.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func claim(t *testing.T, root, name string) *Instance {
	t.Helper()
	instance, err := Claim(root, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(instance.Release)
	return instance
}

func newSet(t *testing.T, instance *Instance) *Set {
	t.Helper()
	set, err := NewSet(instance)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.StopAll)
	return set
}

func shell(name, script string) Spec {
	return Spec{Name: name, Path: "/bin/sh", Args: []string{"-c", script}, Env: Environment()}
}

func TestADeadChildIsNamedWithItsLastLines(t *testing.T) {
	t.Parallel()
	instance := claim(t, t.TempDir(), "up")
	set := newSet(t, instance)
	if err := set.Start(t.Context(), shell("patient", "echo fine; read wait")); err != nil {
		t.Log("reads from an empty input and ends by itself, which is a death too")
	}
	var death *DeathError
	if err := <-set.Died(); !errors.As(err, &death) || death.Name != "patient" || !strings.Contains(err.Error(), "fine") {
		t.Fatalf("got %v, want the death of patient with its last line", err)
	}
	log, err := os.ReadFile(filepath.Join(instance.Logs, "patient.log"))
	if err != nil || string(log) != "patient | fine\n" {
		t.Errorf("the log holds %q (%v)", log, err)
	}
}

func TestAChildThatDiesBeforeItIsReadyIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	set := newSet(t, claim(t, t.TempDir(), "up"))
	spec := shell("broken", "echo 'no such setting'; exit 3")
	spec.Ready = func(context.Context) error { return errors.New("nobody answers") }
	err := set.Start(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "broken died (exit status 3)") || !strings.Contains(err.Error(), "no such setting") {
		t.Fatalf("got %v", err)
	}
}

func TestStoppingIsNoDeath(t *testing.T) {
	t.Parallel()
	set := newSet(t, claim(t, t.TempDir(), "up"))
	if err := set.Start(t.Context(), shell("sleeper", "exec sleep 600")); err != nil {
		t.Fatal(err)
	}
	if err := set.Stop("sleeper"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-set.Died():
		t.Fatalf("a stopped child counts as dead: %v", err)
	default:
	}
}

func TestALiveStackIsLeftAlone(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	set := newSet(t, claim(t, root, "up"))
	if err := set.Start(t.Context(), shell("sleeper", "exec sleep 600")); err != nil {
		t.Fatal(err)
	}
	var live *LiveError
	if _, err := Claim(root, "up"); !errors.As(err, &live) {
		t.Fatalf("a second stack of the same name: got %v, want LiveError", err)
	}
	claim(t, root, "demo") // another name looks for leftovers, and finds none
	if err := set.Stop("sleeper"); err != nil {
		t.Fatalf("the live stack's child is gone: %v", err)
	}
}

// A launcher that was killed leaves pid files and no lock. Whoever starts next,
// under whatever name, ends what they name.
func TestLeftoversAreEnded(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dead, err := Claim(root, "up")
	if err != nil {
		t.Fatal(err)
	}
	leftover := exec.Command("sleep", "600")
	leftover.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := leftover.Start(); err != nil {
		t.Fatal(err)
	}
	stranger := exec.Command("sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	if _, err := dead.writePID("leftover", leftover.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// A pid file whose process is long gone; its number is somebody else's now.
	file, err := dead.writePID("gone", stranger.Process.Pid, syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(content), `"started":"`, `"started":"1`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	dead.Release()

	ended := make(chan error, 1)
	go func() { ended <- leftover.Wait() }()
	claim(t, root, "demo")
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the leftover still runs")
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a stranger with a reused pid was ended: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(root, ".local", "stacks", "*", "run", "*.pid")); len(left) > 0 {
		t.Errorf("pid files are left: %v", left)
	}
}

func TestLinesAreKeptWhole(t *testing.T) {
	t.Parallel()
	var own, all strings.Builder
	l := newLines("x", &own, &all)
	for _, part := range []string{"on", "e\ntwo", "\n", "three"} {
		if _, err := l.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	l.flush()
	if want := "x | one\nx | two\nx | three\n"; own.String() != want || all.String() != want {
		t.Errorf("got %q and %q, want %q", own.String(), all.String(), want)
	}
}

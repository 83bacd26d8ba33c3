// Package process runs the launcher's child processes: it starts them, keeps
// their output, notices when one dies, and sees to it that none outlives the
// launcher, even one that was killed with kill -9. It knows nothing of what the
// processes are.
package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Spec describes one child process.
type Spec struct {
	// Name stands in messages, in the log's prefix and in the files' names.
	Name string
	// Path and Args are what is run; Env is the whole environment.
	Path string
	Args []string
	Env  []string
	// User is the account to run as; nil is the launcher's own.
	User *syscall.Credential
	// Stop is the signal that asks the process to end; SIGTERM when zero.
	Stop syscall.Signal
	// Dying is the signal the kernel sends when the launcher dies; SIGKILL when
	// zero. Linux only.
	Dying syscall.Signal
	// Ready is polled until it returns nil. Nil means ready once started.
	Ready func(ctx context.Context) error
	// ReadyWithin bounds the wait for Ready; 60 s when zero.
	ReadyWithin time.Duration
}

// stopWithin is how long a process has to end after it was asked to.
const stopWithin = 15 * time.Second

// Set is the children of one stack.
type Set struct {
	instance *Instance
	all      io.WriteCloser // the lines of every child, prefixed

	mu       sync.Mutex
	children []*child // in the order of their start
	died     chan error
}

type child struct {
	spec     Spec
	cmd      *exec.Cmd
	lines    *lines
	done     chan struct{} // closed once the process is gone
	err      error         // how it ended; read after done
	stopping bool          // under Set.mu: its end is wanted
}

// NewSet returns an empty set whose logs and pid files belong to instance.
func NewSet(instance *Instance) (*Set, error) {
	all, err := os.Create(filepath.Join(instance.Logs, "all.log"))
	if err != nil {
		return nil, fmt.Errorf("creating the log: %w", err)
	}
	return &Set{instance: instance, all: all, died: make(chan error, 1)}, nil
}

// Died delivers the first unexpected death of a child: its name, how it ended
// and its last lines.
func (s *Set) Died() <-chan error { return s.died }

// Start starts a process and waits until it is ready.
func (s *Set) Start(ctx context.Context, spec Spec) error {
	c, err := s.launch(spec)
	if err != nil {
		return err
	}
	if spec.Ready == nil {
		return nil
	}
	within := spec.ReadyWithin
	if within == 0 {
		within = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		probe, stop := context.WithTimeout(ctx, 2*time.Second)
		err := spec.Ready(probe)
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-c.done:
			return c.obituary()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: %w%s", spec.Name, within, err, c.lines.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Run runs a process to its end; its failure is an error with its last lines.
func (s *Set) Run(ctx context.Context, spec Spec) error {
	c, err := s.launch(spec)
	if err != nil {
		return err
	}
	s.take(func(other *child) bool { return other == c })
	select {
	case <-c.done:
	case <-ctx.Done():
		c.stop()
		return ctx.Err()
	}
	if c.err != nil {
		return c.obituary()
	}
	return nil
}

// Stop ends the named process and returns once it is gone.
func (s *Set) Stop(name string) error {
	c := s.take(func(c *child) bool { return c.spec.Name == name })
	if c == nil {
		return fmt.Errorf("no process is called %s", name)
	}
	c.stop()
	return nil
}

// StopAll ends every process, the last started first.
func (s *Set) StopAll() {
	for c := s.take(func(*child) bool { return true }); c != nil; c = s.take(func(*child) bool { return true }) {
		c.stop()
	}
	_ = s.all.Close()
}

// take removes the last started child that is wanted from the set; its end is
// no accident any more. It returns nil when there is none.
func (s *Set) take(wanted func(*child) bool) *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range slices.Backward(s.children) {
		if wanted(c) {
			c.stopping = true
			s.children = slices.Delete(s.children, i, i+1)
			return c
		}
	}
	return nil
}

func (s *Set) launch(spec Spec) (*child, error) {
	// Appended to, not truncated: a process that is started again keeps its past.
	file, err := os.OpenFile(filepath.Join(s.instance.Logs, spec.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("creating the log of %s: %w", spec.Name, err)
	}
	c := &child{spec: spec, lines: newLines(spec.Name, file, s.all), done: make(chan struct{})}
	cmd := exec.Command(spec.Path, spec.Args...) //nolint:noctx // children are stopped in order, never killed by a context
	cmd.Env = spec.Env
	cmd.Dir = s.instance.Dir
	if spec.User != nil {
		cmd.Dir = os.TempDir() // the instance's folder may be closed to another account
	}
	cmd.Stdout, cmd.Stderr = c.lines, c.lines
	cmd.WaitDelay = 2 * time.Second
	cmd.SysProcAttr = attributes(spec)
	c.cmd = cmd
	if err := start(cmd); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	s.mu.Lock()
	s.children = append(s.children, c)
	s.mu.Unlock()
	pidFile, err := s.instance.writePID(spec.Name, cmd.Process.Pid, c.stopSignal())
	if err != nil {
		c.stop()
		return nil, err
	}
	go func() {
		c.err = cmd.Wait()
		c.lines.flush()
		_ = file.Close()
		_ = os.Remove(pidFile)
		close(c.done)
		s.mu.Lock()
		unexpected := !c.stopping
		s.mu.Unlock()
		if unexpected {
			select {
			case s.died <- c.obituary():
			default: // only the first counts
			}
		}
	}()
	return c, nil
}

func (c *child) stopSignal() syscall.Signal {
	if c.spec.Stop == 0 {
		return syscall.SIGTERM
	}
	return c.spec.Stop
}

// stop asks, then insists.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(c.stopSignal())
	select {
	case <-c.done:
	case <-time.After(stopWithin):
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		<-c.done
	}
}

// obituary says how a process ended and what it said last.
func (c *child) obituary() error {
	how := "it ended by itself"
	if c.err != nil {
		how = c.err.Error()
	}
	return &DeathError{Name: c.spec.Name, How: how, LastLines: c.lines.tail()}
}

// DeathError is the end of a child that nobody asked for.
type DeathError struct {
	Name, How, LastLines string
}

func (e *DeathError) Error() string {
	return fmt.Sprintf("%s died (%s)%s", e.Name, e.How, e.LastLines)
}

// Environment is what every child gets of the launcher's own environment.
func Environment(more ...string) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ", "GOMAXPROCS", "GORACE"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return append(env, more...)
}

// quoted puts a process's last lines behind a message.
func quoted(text []string) string {
	if len(text) == 0 {
		return "; it said nothing"
	}
	return "; its last lines:\n    " + strings.Join(text, "\n    ")
}

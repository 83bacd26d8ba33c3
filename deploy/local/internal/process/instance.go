package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Instance is the folder of one running stack of a checkout: its lock, the pid
// files of its children, its data and its logs. A checkout may run several, each
// under its own name.
type Instance struct {
	Name string
	// Root is the checkout.
	Root string
	// Dir is .local/stacks/<name>, Logs is .local/logs/<name>.
	Dir, Logs string

	lock *os.File
}

// LiveError says that a stack of this name runs already.
type LiveError struct {
	Name string
	PID  string
}

func (e *LiveError) Error() string {
	return fmt.Sprintf("the stack %q of this checkout is running (process %s): stop it first with Ctrl-C there or 'kill %s', or start another one with --name", e.Name, e.PID, e.PID)
}

// Claim makes the instance ours until the process ends, however it ends: the
// lock is the kernel's. What an earlier launcher of this checkout left behind
// is cleared first, under whatever name; what a live one owns is left alone.
func Claim(root, name string) (*Instance, error) {
	i := &Instance{
		Name: name,
		Root: root,
		Dir:  filepath.Join(root, ".local", "stacks", name),
		Logs: filepath.Join(root, ".local", "logs", name),
	}
	if err := i.lockSoon(); err != nil {
		return nil, err
	}
	for _, dir := range []string{i.run(), i.Logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("making the stack's folders: %w", err)
		}
	}
	if err := i.clear(); err != nil {
		return nil, err
	}
	return i, clearOthers(root, name)
}

// Release gives the name free. The data stays until the next start.
func (i *Instance) Release() { _ = i.lock.Close() }

// Remove removes the stack's data and logs.
func (i *Instance) Remove() error {
	if err := errors.Join(os.RemoveAll(i.Dir), os.RemoveAll(i.Logs)); err != nil {
		return fmt.Errorf("removing the stack %s: %w", i.Name, err)
	}
	return nil
}

func (i *Instance) run() string { return filepath.Join(i.Dir, "run") }

// lockSoon takes the lock. Another launcher that starts at this moment may hold
// it for an instant, while it looks for leftovers; a live stack holds it longer.
func (i *Instance) lockSoon() error {
	var live *LiveError
	var err error
	for range 10 {
		if err = i.tryLock(); !errors.As(err, &live) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func (i *Instance) tryLock() error {
	if err := os.MkdirAll(i.Dir, 0o755); err != nil {
		return fmt.Errorf("making the stack's folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(i.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("opening the stack's lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(lock.Name())
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return &LiveError{Name: i.Name, PID: strings.TrimSpace(string(holder))}
		}
		return fmt.Errorf("taking the stack's lock: %w", err)
	}
	if err := errors.Join(lock.Truncate(0), writeAll(lock, strconv.Itoa(os.Getpid()))); err != nil {
		return fmt.Errorf("signing the stack's lock: %w", err)
	}
	i.lock = lock
	return nil
}

func writeAll(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// pidRecord is a child as its pid file tells it. A pid alone may meanwhile be
// somebody else's.
type pidRecord struct {
	PID     int            `json:"pid"`
	Started string         `json:"started"`
	Stop    syscall.Signal `json:"stop"`
}

func (i *Instance) writePID(name string, pid int, stop syscall.Signal) (string, error) {
	started, err := startTime(pid)
	if err != nil {
		return "", err
	}
	content, err := json.Marshal(pidRecord{PID: pid, Started: started, Stop: stop})
	if err != nil {
		return "", fmt.Errorf("encoding the pid file: %w", err)
	}
	file := filepath.Join(i.run(), name+".pid")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return "", fmt.Errorf("writing the pid file: %w", err)
	}
	return file, nil
}

// clear ends the processes that an earlier launcher left behind. The caller
// holds the lock.
func (i *Instance) clear() error {
	files, err := filepath.Glob(filepath.Join(i.run(), "*.pid"))
	if err != nil {
		return fmt.Errorf("listing pid files: %w", err)
	}
	for _, file := range files {
		if err := endLeftover(file); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("removing a pid file: %w", err)
		}
	}
	return nil
}

func endLeftover(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading a pid file: %w", err)
	}
	var record pidRecord
	// A record cut off while it was written: the kernel has ended its process.
	if json.Unmarshal(content, &record) != nil || record.PID <= 1 || record.Started == "" {
		return nil //nolint:nilerr // nothing to end
	}
	alive := func() bool {
		started, err := startTime(record.PID)
		return err == nil && started == record.Started
	}
	if !alive() {
		return nil
	}
	_ = syscall.Kill(record.PID, record.Stop)
	if gone(alive) {
		return nil
	}
	_ = syscall.Kill(-record.PID, syscall.SIGKILL)
	if gone(alive) {
		return nil
	}
	return fmt.Errorf("process %d, which an earlier stack left behind (%s), does not end: end it by hand", record.PID, filepath.Base(file))
}

// gone waits for a process that is no child of ours to end.
func gone(alive func() bool) bool {
	for deadline := time.Now().Add(stopWithin); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if !alive() {
			return true
		}
	}
	return false
}

// clearOthers ends what dead launchers left under other names.
func clearOthers(root, name string) error {
	dirs, err := filepath.Glob(filepath.Join(root, ".local", "stacks", "*"))
	if err != nil {
		return fmt.Errorf("listing stacks: %w", err)
	}
	for _, dir := range dirs {
		other := &Instance{Name: filepath.Base(dir), Root: root, Dir: dir}
		if other.Name == name {
			continue
		}
		var live *LiveError
		if err := other.tryLock(); errors.As(err, &live) {
			continue
		} else if err != nil {
			return err
		}
		err := other.clear()
		other.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

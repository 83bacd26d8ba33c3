package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/muniment/muniment/deploy/local/internal/engines"
	"github.com/muniment/muniment/deploy/local/internal/gotest"
	"github.com/muniment/muniment/deploy/local/internal/process"
	"github.com/muniment/muniment/deploy/local/internal/testenv"
)

// modules are the workspace's modules, as go.work lists them.
var modules = []string{"./cmd/...", "./deploy/...", "./migrations/...", "./pkg/...", "./services/..."}

// runTest starts the engines once and runs every test with the race detector.
func runTest(ctx context.Context, root string, args []string) (err error) {
	flags := newFlags("test")
	soak := flags.Bool("soak", false, "the stated volumes of kills and races; takes much longer")
	bench := flags.Bool("bench", false, "run the benchmarks instead, without the race detector")
	match := flags.String("run", "", "only tests that match the `pattern`, as of go test -run")
	if err := parse(flags, args); err != nil {
		return err
	}
	if !*bench {
		if err := engines.Compiler(ctx, sayf); err != nil {
			return err
		}
		if err := runBuild(ctx, root, []string{"--race"}); err != nil {
			return err
		}
	}
	instance, err := process.Claim(root, "test")
	if err != nil {
		return err
	}
	defer instance.Release()
	set, err := process.NewSet(instance)
	if err != nil {
		return err
	}
	e, err := engines.Start(ctx, set, instance, sayf)
	if err != nil {
		set.StopAll()
		return err
	}
	defer func() {
		err = errors.Join(err, e.Close(context.WithoutCancel(ctx)))
		set.StopAll()
	}()
	variables, err := testenv.Prepare(ctx, e, instance)
	if err != nil {
		return err
	}

	timeout := 10 * time.Minute
	if *soak {
		timeout = 2 * time.Hour
		variables = append(variables, "MUNIMENT_SOAK=1")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case death := <-set.Died():
			cancel(death)
		case <-ctx.Done():
		}
	}()
	goArgs := []string{"test", "-json", "-race", "-timeout", timeout.String()}
	if *match != "" {
		goArgs = append(goArgs, "-run", *match)
	}
	if *bench {
		goArgs = []string{"test", "-run", "^$", "-bench", ".", "-benchmem"}
	}
	sayf("running go %s", strings.Join(goArgs, " "))
	cmd := exec.CommandContext(ctx, "go", append(goArgs, modules...)...)
	cmd.Dir = root
	// make's own flags for static programs are not for these.
	cmd.Env = append(append(os.Environ(), variables...), "MUNIMENT_TEST_REQUIRED=1", "CGO_ENABLED=1", "GOFLAGS=-buildvcs=false")
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if *bench {
		cmd.Stdout = os.Stdout
		err = cmd.Run()
	} else {
		err = gotest.Run(cmd, os.Stdout, time.Now)
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("the tests were interrupted: %w", cause)
	}
	return err
}

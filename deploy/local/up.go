package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/muniment/muniment/deploy/local/internal/demo"
	"github.com/muniment/muniment/deploy/local/internal/process"
	"github.com/muniment/muniment/deploy/local/internal/stack"
	"github.com/muniment/muniment/deploy/local/internal/testenv"
)

// stackEnvComment heads stack.env.
const stackEnvComment = `Where everything of the running local stack is. For a shell:
  set -a; . .local/stack.env; set +a`

// stackFlags are the flags of the commands that start a stack.
func stackFlags(command, root string) (*flag.FlagSet, *string, *stack.Options) {
	flags := newFlags(command)
	options := &stack.Options{}
	name := flags.String("name", command, "the stack's `name`; stacks with different names run side by side")
	flags.IntVar(&options.Replicas, "replicas", replicasWanted(), "how many of each service; REPLICAS sets it too")
	flags.StringVar(&options.Gateway, "gateway", "", "`host:port` of the first gateway; a free port when empty")
	flags.StringVar(&options.Bin, "bin", filepath.Join(root, "bin"), "`folder` of the programs that 'make build' makes")
	return flags, name, options
}

func replicasWanted() int {
	text := os.Getenv("REPLICAS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0 // refused where the number is looked at
	}
	return n
}

// withStack starts a stack, writes its variables and calls work. Everything is
// stopped when work returns, when ctx ends, or when one of the programs dies.
func withStack(ctx context.Context, root, name string, options stack.Options, envFile string, work func(ctx context.Context, s *stack.Stack) error) (err error) {
	if options.Replicas < 1 || options.Replicas > 8 {
		return fmt.Errorf("--replicas (or REPLICAS) must be 1 to 8, not %d", options.Replicas)
	}
	if name == "" || strings.ContainsAny(name, `/\. `) {
		return fmt.Errorf("--name must be a plain word, not %q", name)
	}
	instance, err := process.Claim(root, name)
	if err != nil {
		return err
	}
	defer instance.Release()
	s, err := stack.Start(ctx, instance, options, sayf)
	if err != nil {
		return err
	}
	defer func() {
		sayf("stopping")
		err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}()
	if err := testenv.Write(envFile, stackEnvComment, s.Env()); err != nil {
		return err
	}
	defer os.Remove(envFile)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- work(ctx, s) }()
	select {
	case err := <-done:
		return err
	case death := <-s.Set.Died():
		cancel()
		<-done //nolint:errcheck // the death is what there is to say
		return death
	}
}

// runUp runs a stack until Ctrl-C.
func runUp(ctx context.Context, root string, args []string) error {
	flags, name, options := stackFlags("up", root)
	if err := parse(flags, args); err != nil {
		return err
	}
	envFile := filepath.Join(root, ".local", "stack.env")
	if *name != "up" {
		envFile = filepath.Join(root, ".local", "stacks", *name, "stack.env")
	}
	return withStack(ctx, root, *name, *options, envFile, func(ctx context.Context, s *stack.Stack) error {
		sayf("the stack is up")
		for _, url := range s.Gateways {
			fmt.Println("  gateway    ", url)
		}
		fmt.Println("  demo site  ", s.Site())
		fmt.Println("  variables  ", envFile)
		fmt.Println("  logs       ", filepath.Join(root, ".local", "logs", *name))
		fmt.Println("  a token    ", "bin/muniment token --subject alice --org acme")
		fmt.Println("Ctrl-C stops it.")
		<-ctx.Done()
		return nil
	})
}

// runDemo runs a stack of its own and walks through the main job on it.
func runDemo(ctx context.Context, root string, args []string) error {
	flags, name, options := stackFlags("demo", root)
	if err := parse(flags, args); err != nil {
		return err
	}
	options.FeedsOnDemand = true
	envFile := filepath.Join(root, ".local", "stacks", *name, "stack.env")
	return withStack(ctx, root, *name, *options, envFile, func(ctx context.Context, s *stack.Stack) error {
		return demo.Run(ctx, s, os.Stdout)
	})
}

// runReset ends what is left of earlier stacks and removes their data and logs.
func runReset(_ context.Context, root string, args []string) error {
	if err := parse(newFlags("reset"), args); err != nil {
		return err
	}
	stacks, err := filepath.Glob(filepath.Join(root, ".local", "stacks", "*"))
	if err != nil {
		return fmt.Errorf("listing stacks: %w", err)
	}
	for _, dir := range stacks {
		instance, err := process.Claim(root, filepath.Base(dir))
		if err != nil {
			return err
		}
		err = instance.Remove()
		instance.Release()
		if err != nil {
			return err
		}
		sayf("removed the stack %q", instance.Name)
	}
	for _, name := range []string{"stack.env", "test.env"} {
		if err := os.Remove(filepath.Join(root, ".local", name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing variables: %w", err)
		}
	}
	return nil
}

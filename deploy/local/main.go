// Command muniment-local runs the product on this machine: the real engines,
// the five services and the stand-ins for what lives elsewhere in production.
// It is for development, the demo and the tests, and for nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/muniment/muniment/pkg/daemon"
)

// command is one subcommand. They are written out here, all of them.
type command struct {
	name, about string
	run         func(ctx context.Context, root string, args []string) error
}

var commands = []command{
	{"build", "build every program into bin/ (--race: into .local/bin-race)", runBuild},
	{"up", "run the whole stack until Ctrl-C; writes .local/stack.env", runUp},
	{"demo", "run a stack of its own and walk through the main job", runDemo},
	{"test", "start the engines once and run every test with the race detector", runTest},
	{"reset", "end what earlier stacks left behind and remove their data", runReset},
	{"engines", "run the engines for tests and write .local/test.env, until Ctrl-C", runEngines},
	{"template", "make the test database's template anew from the migrations", runTemplate},
}

func main() {
	// The first signal stops everything in order; a second one ends at once,
	// and the kernel or the next start clears what is left.
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(1)
	}()
	err := run(ctx, os.Args[1:])
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		cancel()
		return
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		err = errors.New("stopped before it was done")
	}
	cancel()
	fmt.Fprintf(os.Stderr, "muniment-local: %v\n", err)
	os.Exit(1)
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "-version") {
		fmt.Println("muniment-local", daemon.Version)
		return nil
	}
	if len(args) > 0 {
		for _, c := range commands {
			if c.name == args[0] {
				root, err := checkout()
				if err != nil {
					return err
				}
				return c.run(ctx, root, args[1:])
			}
		}
	}
	var list strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&list, "\n  %-9s %s", c.name, c.about)
	}
	usage := "usage: muniment-local <command>" + list.String()
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Println(usage)
		return nil
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}

// checkout is the folder of the repository that the working directory is in.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside a checkout of the repository: no go.work here or above")
		}
	}
}

// parse reads a subcommand's flags; nothing may follow them.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(os.Stdout)
			flags.Usage()
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: unknown argument %q", flags.Name(), flags.Arg(0))
	}
	return nil
}

// newFlags returns a set whose errors are returned and not printed twice.
func newFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet("muniment-local "+name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// sayf prints a line of progress.
func sayf(format string, args ...any) {
	fmt.Printf(time.Now().UTC().Format("15:04:05 ")+format+"\n", args...)
}

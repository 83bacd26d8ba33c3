// Command muniment is the operator's command line: it looks into a running
// system and does what is done by hand there. Each subcommand says in its usage
// what it needs; addresses come from the environment, or from .local/stack.env
// of the local stack where that is not set.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/muniment/muniment/pkg/daemon"
)

// command is one subcommand.
type command struct {
	name, usage string
	run         func(ctx context.Context, shell shell, args []string) error
}

// commands are all of them. Nothing registers itself.
var commands = []command{
	{"token", tokenUsage, runToken},
	{"grant", grantUsage, runGrant},
	{"revoke", revokeUsage, runRevoke},
	{"share", shareUsage, runShare},
	{"unshare", unshareUsage, runUnshare},
	{"who", whoUsage, runWho},
	{"doctor", doctorUsage, runDoctor},
	{"feeds", feedsUsage, runFeeds},
	{"outbox", outboxUsage, runOutbox},
	{"targets", targetsUsage, runTargets},
}

// shell is what a subcommand gets of the process: its input and output and its
// settings.
type shell struct {
	in     io.Reader
	out    io.Writer
	getenv func(name string) string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, shell{in: os.Stdin, out: os.Stdout, getenv: stackEnv(os.Getenv)}, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "muniment: %s\n", daemon.OneLine(err))
		os.Exit(1)
	}
}

func run(ctx context.Context, sh shell, args []string) error {
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		return help(sh.out)
	}
	if args[0] == "--version" {
		_, err := fmt.Fprintln(sh.out, "muniment", daemon.Version)
		return err
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(ctx, sh, args[1:])
		}
	}
	return fmt.Errorf("unknown command %q; 'muniment help' lists them", args[0])
}

func help(out io.Writer) error {
	var text strings.Builder
	text.WriteString("usage: muniment <command>\n")
	for _, c := range commands {
		text.WriteString("  muniment " + c.usage + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// required returns a setting that the command cannot do without.
func (s shell) required(name string) (string, error) {
	if value := s.getenv(name); value != "" {
		return value, nil
	}
	return "", fmt.Errorf("%s is not set: start the local stack with 'make up', or set it", name)
}

// Package daemon is the outer shell of a service's process: flags, signals, the
// version and the one line that is printed when it cannot go on. The wiring of
// a service stands in its main.go.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/muniment/muniment/pkg/config"
)

// Version is set at build time with -ldflags -X.
var Version = "dev"

// Main runs a service until it ends or a signal comes, and exits the process.
// The first SIGINT or SIGTERM ends run's context; a second one stops at once.
// An error is printed as one line on standard error, and the exit status is 1; a
// setting that it is about is named with the prefix.
func Main(name, prefix string, run func(ctx context.Context, environ []string) error) {
	if err := flags(name, os.Args[1:]); err != nil {
		if errors.Is(err, errDone) {
			os.Exit(0)
		}
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(2)
	}
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		fmt.Fprintf(os.Stderr, "%s: second signal, stopping at once\n", name)
		os.Exit(1)
	}()
	err := run(ctx, os.Environ())
	cancel()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, OneLine(named(prefix, err)))
		os.Exit(1)
	}
}

// named spells the variable that an error is about in full.
func named(prefix string, err error) error {
	if setting, ok := errors.AsType[*config.SettingError](err); ok {
		return fmt.Errorf("%s%w", prefix, setting)
	}
	return err
}

var errDone = errors.New("nothing more to do")

func flags(name string, args []string) error {
	for _, a := range args {
		switch a {
		case "--version", "-version":
			fmt.Println(name, Version)
			return errDone
		case "--help", "-help", "-h":
			fmt.Printf("%s takes its settings from the environment; its main.go documents them.\nFlags: --version, --help\n", name)
			return errDone
		default:
			return fmt.Errorf("unknown argument %q; the flags are --version and --help, settings come from the environment", a)
		}
	}
	return nil
}

// OneLine prints an error without line breaks.
func OneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

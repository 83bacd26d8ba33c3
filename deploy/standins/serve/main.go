package serve

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
)

// Main runs a stand-in's command and exits the process. run defines its flags
// on flags, parses args and serves until ctx ends. An error is printed as one
// line on standard error.
func Main(name string, run func(ctx context.Context, flags *flag.FlagSet, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	err := run(ctx, flags, os.Args[1:])
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	default:
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, strings.Join(strings.Fields(err.Error()), " "))
		os.Exit(1)
	}
}

// Parse parses args and refuses what is left over.
func Parse(flags *flag.FlagSet, args []string) error {
	// An error is one line; the list of flags is for those who ask for it.
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		return err
	}
	if err != nil {
		return fmt.Errorf("%w; run %s -help", err, flags.Name())
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q; run %s -help", flags.Arg(0), flags.Name())
	}
	return nil
}

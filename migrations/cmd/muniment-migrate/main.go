// Command muniment-migrate brings the database to the newest state, or says how
// far it is. It is the only program that changes the schema.
//
//	muniment-migrate up       roles, schemas and every folder, under a lock
//	muniment-migrate status   the version of each schema, and the one wanted
//
// The superuser's URL comes from MUNIMENT_MIGRATE_DATABASE_URL, or from the
// file that MUNIMENT_MIGRATE_DATABASE_URL_FILE names.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/muniment/muniment/migrations"
	"github.com/muniment/muniment/pkg/daemon"
)

const usage = "usage: muniment-migrate up|status|--version"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Getenv)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "muniment-migrate: %s\n", daemon.OneLine(err))
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer, getenv func(string) string) error {
	if len(args) != 1 {
		return errors.New(usage)
	}
	switch args[0] {
	case "--version":
		_, err := fmt.Fprintln(out, "muniment-migrate", daemon.Version)
		return err
	case "up", "status":
	default:
		return fmt.Errorf("unknown argument %q; %s", args[0], usage)
	}
	url, err := databaseURL(getenv)
	if err != nil {
		return err
	}
	if args[0] == "up" {
		if err := migrations.Up(ctx, url); err != nil {
			return err
		}
	}
	states, err := migrations.Read(ctx, url)
	if err != nil {
		return err
	}
	for _, s := range states {
		note := ""
		if s.Version < s.Want {
			note = fmt.Sprintf("  (behind: %d is the newest; run 'muniment-migrate up')", s.Want)
		}
		if _, err := fmt.Fprintf(out, "%-12s %d%s\n", s.Schema, s.Version, note); err != nil {
			return err
		}
	}
	return nil
}

func databaseURL(getenv func(string) string) (string, error) {
	const name = "MUNIMENT_MIGRATE_DATABASE_URL"
	url, file := getenv(name), getenv(name+"_FILE")
	switch {
	case url != "" && file != "":
		return "", fmt.Errorf("%s and %s_FILE are both set: give one", name, name)
	case url != "":
		return url, nil
	case file != "":
		content, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("%s_FILE names a file that cannot be read: %w", name, err)
		}
		return strings.TrimSpace(string(content)), nil
	}
	return "", fmt.Errorf("%s or %s_FILE is required and not set", name, name)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/muniment/muniment/deploy/local/internal/engines"
	"github.com/muniment/muniment/deploy/local/internal/process"
	"github.com/muniment/muniment/deploy/local/internal/testenv"
)

// testEnvComment heads .local/test.env.
const testEnvComment = `The engines that 'muniment-local engines' runs, for tests during development:
  set -a; . .local/test.env; set +a; cd <module>; go test ./...
After a change of migrations: go run ./deploy/local template`

// runEngines runs the engines in the foreground, for tests during development.
func runEngines(ctx context.Context, root string, args []string) (err error) {
	if err := parse(newFlags("engines"), args); err != nil {
		return err
	}
	instance, err := process.Claim(root, "engines")
	if err != nil {
		return err
	}
	defer instance.Release()
	set, err := process.NewSet(instance)
	if err != nil {
		return err
	}
	defer set.StopAll()
	e, err := engines.Start(ctx, set, instance, sayf)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	variables, err := testenv.Prepare(ctx, e, instance)
	if err != nil {
		return err
	}
	file := filepath.Join(root, ".local", "test.env")
	if err := testenv.Write(file, testEnvComment, variables); err != nil {
		return err
	}
	defer os.Remove(file)
	sayf("ready: .local/test.env")
	select {
	case <-ctx.Done():
		sayf("stopping")
		return nil
	case err := <-set.Died():
		return err
	}
}

// runTemplate makes the template of the running test engines anew.
func runTemplate(ctx context.Context, _ string, args []string) error {
	if err := parse(newFlags("template"), args); err != nil {
		return err
	}
	url, name := os.Getenv("MUNIMENT_TEST_DATABASE_URL"), os.Getenv("MUNIMENT_TEST_TEMPLATE")
	if url == "" || name == "" {
		return errors.New("MUNIMENT_TEST_DATABASE_URL and MUNIMENT_TEST_TEMPLATE are not set: run 'muniment-local engines' and source .local/test.env")
	}
	if err := testenv.MakeTemplate(ctx, url, name); err != nil {
		return fmt.Errorf("making the template: %w", err)
	}
	sayf("the template %s is new", name)
	return nil
}

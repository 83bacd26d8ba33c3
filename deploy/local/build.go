package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// program is one of the repository's programs.
type program struct{ name, pkg string }

// programs are all that `make build` makes.
var programs = []program{
	{"muniment-ledger", "services/ledger"},
	{"muniment-signer", "services/signer"},
	{"muniment-reconciler", "services/reconciler"},
	{"muniment-outbox-relay", "services/outbox-relay"},
	{"muniment-feed-archiver", "services/feed-archiver"},
	{"muniment-feed-replay", "services/feed-archiver/replay"},
	{"muniment-migrate", "migrations/cmd/muniment-migrate"},
	{"muniment-model", "deploy/openfga/muniment-model"},
	{"muniment", "cmd/muniment"},
	{"muniment-local", "deploy/local"},
	{"browserhive-standin", "deploy/standins/cmd/browserhive-standin"},
	{"windmill-standin", "deploy/standins/cmd/windmill-standin"},
	{"demo-site", "deploy/standins/cmd/demo-site"},
	{"feedserver", "deploy/standins/cmd/feedserver"},
}

// runBuild builds every program: static, or with the race detector for tests.
func runBuild(ctx context.Context, root string, args []string) error {
	flags := newFlags("build")
	version := flags.String("version", "dev", "the version that --version prints")
	race := flags.Bool("race", false, "with the race detector, into .local/bin-race")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *race {
		return build(ctx, root, filepath.Join(root, ".local", "bin-race"), *version, []string{"-race"}, "CGO_ENABLED=1")
	}
	return build(ctx, root, filepath.Join(root, "bin"), *version, []string{"-trimpath"}, "CGO_ENABLED=0")
}

// build runs the compiler once for all programs, into a folder where it finds
// its own last results again, and puts them under their names.
func build(ctx context.Context, root, into, version string, flags []string, env string) error {
	work := filepath.Join(root, ".local", "build", filepath.Base(into))
	for _, dir := range []string{work, into} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making a folder for programs: %w", err)
		}
	}
	args := append([]string{"build"}, flags...)
	// The version is given; what git says would make each commit a new build.
	args = append(args, "-buildvcs=false", "-ldflags", "-X github.com/muniment/muniment/pkg/daemon.Version="+version, "-o", work+string(filepath.Separator))
	for _, p := range programs {
		args = append(args, "./"+p.pkg)
	}
	sayf("building %d programs into %s", len(programs), strings.TrimPrefix(into, root+string(filepath.Separator)))
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env, "GOFLAGS=")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building the programs: %w", err)
	}
	for _, p := range programs {
		if err := place(filepath.Join(work, filepath.Base(p.pkg)), filepath.Join(into, p.name)); err != nil {
			return fmt.Errorf("putting %s in its place: %w", p.name, err)
		}
	}
	return nil
}

// place copies a program to a new file and renames that into place: a running
// one is not written over.
func place(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err := errors.Join(err, target.Close()); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

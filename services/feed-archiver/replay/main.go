// Command muniment-feed-replay runs recorded bodies of a source through the
// very path of the pollers, split, canonicalised, hashed and stored, into a
// scratch database that it makes and drops. It prints the items and what is new,
// and fails for a body that would have been a failed read.
//
//	muniment-feed-replay SOURCE FILE… [--request R] [--event E] [--storm S]
//	    [--version V] [--source S] [--code C]
//
// What the flags leave open is taken from the file's name where that says it.
// It needs MUNIMENT_DATABASE_URL, a superuser's URL of the server to use.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/muniment/muniment/migrations"
	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/daemon"
	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/feeds"
	"github.com/muniment/muniment/services/feed-archiver/internal/rights"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv("MUNIMENT_DATABASE_URL"), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "muniment-feed-replay: %s\n", daemon.OneLine(err))
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, superuserURL string, out io.Writer) error {
	if len(args) == 1 && args[0] == "--version" {
		_, err := fmt.Fprintln(out, "muniment-feed-replay", daemon.Version)
		return err
	}
	source, files, params, err := parse(args)
	if err != nil {
		return err
	}
	if superuserURL == "" {
		return errors.New("MUNIMENT_DATABASE_URL is not set: start the local stack with 'make up', or set it to a superuser's URL")
	}
	return withScratch(ctx, superuserURL, func(w *archive.Writer) error {
		failed := 0
		for _, file := range files {
			if err := replay(ctx, w, source, file, params, out); err != nil {
				failed++
				if _, err := fmt.Fprintf(out, "%s: FAILED READ: %s\n", file, daemon.OneLine(err)); err != nil {
					return fmt.Errorf("printing: %w", err)
				}
			}
		}
		if failed > 0 {
			return fmt.Errorf("%d of %d bodies would be failed reads", failed, len(files))
		}
		return nil
	})
}

// parse takes flags before, between and after the names.
func parse(args []string) (*feeds.Source, []string, feeds.Params, error) {
	var p feeds.Params
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&p.Request, "request", "", "the read's name")
	flags.StringVar(&p.Event, "event", "", "the event that the body belongs to")
	flags.StringVar(&p.Storm, "storm", "", "the storm that the body belongs to")
	flags.StringVar(&p.Version, "version", "", "the product's version")
	flags.StringVar(&p.Source, "source", "", "who made the product")
	flags.StringVar(&p.Code, "code", "", "the product's code")
	var names []string
	for rest := args; ; rest = flags.Args()[1:] {
		if err := flags.Parse(rest); err != nil {
			return nil, nil, p, fmt.Errorf("reading the flags: %w", err)
		}
		if flags.NArg() == 0 {
			break
		}
		names = append(names, flags.Arg(0))
	}
	if len(names) < 2 {
		return nil, nil, p, errors.New("a source and at least one file are needed")
	}
	source, ok := feeds.Find(names[0])
	if !ok {
		return nil, nil, p, fmt.Errorf("%q is not a source", names[0])
	}
	return source, names[1:], p, nil
}

// replay splits and stores one body and prints what came of it.
func replay(ctx context.Context, w *archive.Writer, source *feeds.Source, file string, p feeds.Params, out io.Writer) error {
	body, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	items, err := source.Replay(filepath.Base(file), body, p)
	if err != nil {
		return err
	}
	request := p.Request
	if request == "" {
		request = "replay"
	}
	read := archive.Read{
		Source: source.Name, Request: request, FetchedAt: time.Now(), HTTPStatus: 200,
		RemovedFields: source.Removed, Items: items, Bytes: int64(len(body)),
	}
	before, err := w.Preview(ctx, read)
	if err != nil {
		return err
	}
	recorded, err := w.Record(ctx, read)
	if err != nil {
		return err
	}
	if before.New != recorded.New {
		return fmt.Errorf("%d new bodies were foreseen and %d stored", before.New, recorded.New)
	}
	for _, item := range items {
		issued := "-"
		if item.IssuedAt != nil {
			issued = item.IssuedAt.UTC().Format(time.RFC3339Nano)
		}
		if _, err := fmt.Fprintf(out, "%s\t%s\t%s\t%d bytes\n", item.ProductID, orDash(item.ItemKey), issued, len(item.Body)); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	_, err = fmt.Fprintf(out, "%s: %d items, %d distinct bodies, %d new\n", file, len(items), recorded.Seen, recorded.New)
	return err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// withScratch makes a migrated database of its own on the server, gives work a
// writer into it as the service's role has it, and drops it.
func withScratch(ctx context.Context, superuserURL string, work func(*archive.Writer) error) (err error) {
	conn, err := pgx.Connect(ctx, superuserURL)
	if err != nil {
		return errors.New("the server of MUNIMENT_DATABASE_URL does not answer")
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	name := "muniment_replay_" + strings.ToLower(rand.Text()[:10])
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return fmt.Errorf("making the scratch database: %w", err)
	}
	defer func() {
		_, dropErr := conn.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
		err = errors.Join(err, dropErr)
	}()
	scratch, err := url.Parse(superuserURL)
	if err != nil {
		return errors.New("MUNIMENT_DATABASE_URL is not a URL")
	}
	scratch.Path = "/" + name
	if err := migrations.Up(ctx, scratch.String()); err != nil {
		return err
	}
	// The superuser plays the service's role: search path and rights are its own.
	query := scratch.Query()
	query.Set("options", "-c role=muniment_feed -c search_path=feed")
	// Postgres reads %20 as a space in it, and not the plus sign of forms.
	scratch.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	pool, err := pg.Open(ctx, config.Database{URL: scratch.String(), MaxConns: 2, Mode: "prepared"}, "feed-replay")
	if err != nil {
		return err
	}
	defer pool.Close()
	register, err := rights.CheckedIn()
	if err != nil {
		return err
	}
	return work(archive.New(store.New(pool), register, archive.NewMetrics(prometheus.NewRegistry()), zap.NewNop(), archive.InTests()))
}

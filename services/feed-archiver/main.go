// Command muniment-feed-archiver reads federal hazard feeds and keeps them as
// issued, takes what other systems read of them, and answers the public
// questions about the archive. It is safe to run in any number of replicas.
package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/daemon"
	"github.com/muniment/muniment/pkg/grpcx"
	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/feeds"
	"github.com/muniment/muniment/services/feed-archiver/internal/fetch"
	"github.com/muniment/muniment/services/feed-archiver/internal/poll"
	"github.com/muniment/muniment/services/feed-archiver/internal/rights"
	"github.com/muniment/muniment/services/feed-archiver/internal/server"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

const (
	name   = "feed-archiver"
	prefix = "MUNIMENT_FEED_"
)

// Config holds every setting, read from MUNIMENT_FEED_… variables.
type Config struct {
	config.Service
	config.Database

	// Fetch, Feeds, Poll and Server are documented where they are used: how the
	// archiver behaves towards publishers, each source's own settings, how
	// replicas share the sources, and who may push.
	Fetch  fetch.Settings
	Feeds  feeds.Settings
	Poll   poll.Settings
	Server server.Settings
}

// Validate checks what the parts and their relations say.
func (c *Config) Validate(prefix string) error {
	for _, part := range []config.Validator{c.Service, c.Database, c.Fetch, &c.Feeds, c.Poll, c.Server} {
		if err := part.Validate(prefix); err != nil {
			return err
		}
	}
	return nil
}

func main() { daemon.Main("muniment-"+name, prefix, run) }

func run(ctx context.Context, environ []string) error {
	var cfg Config
	if err := config.Load(prefix, environ, &cfg, nil); err != nil {
		return err
	}
	log, err := telemetry.NewLogger(name, daemon.Version, cfg.LogLevel)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	registry := telemetry.NewRegistry(name, daemon.Version)
	stopTracing, err := telemetry.StartTracing(ctx, cfg.OTLPEndpoint, name, daemon.Version)
	if err != nil {
		return err
	}
	defer func() { _ = stopTracing(context.WithoutCancel(ctx)) }()

	pool, err := pg.Open(ctx, cfg.Database, name)
	if err != nil {
		return err
	}
	defer pool.Close()
	register, err := rights.CheckedIn()
	if err != nil {
		return err
	}
	client, err := fetch.New(cfg.Fetch, daemon.Version, time.Now)
	if err != nil {
		return err
	}
	defer client.Close()

	rows := store.New(pool)
	writer := archive.New(rows, register, archive.NewMetrics(registry), log)
	poller := poll.New(rows, writer, feeds.NewReader(client, &cfg.Feeds, time.Now), &cfg.Feeds, cfg.Poll, registry, log, time.Now)
	handlers := server.New(poller, writer, rows, register, cfg.Server)

	srv, err := grpcx.NewServer(grpcx.ServerSettings{
		Address: cfg.GRPCAddress,
		TLS:     grpcx.TLSFiles{Cert: cfg.TLSCertFile, Key: cfg.TLSKeyFile, CA: cfg.TLSCAFile},
		Callers: handlers.Callers(),
		Checks:  []grpcx.Check{{Name: "database", Run: rows.Ready}},

		MaxConnectionAge: cfg.MaxConnectionAge,
		DrainDelay:       cfg.DrainDelay,
		ShutdownTimeout:  cfg.ShutdownTimeout,
	}, registry, log)
	if err != nil {
		return err
	}
	feedarchiverv1.RegisterFeedServiceServer(srv, handlers)
	feedarchiverv1.RegisterRecordServiceServer(srv, handlers)
	feedarchiverv1.RegisterAsIssuedServiceServer(srv, handlers)

	loops, ctx := errgroup.WithContext(ctx)
	loops.Go(func() error { return telemetry.ServeDebug(ctx, cfg.DebugAddress, registry, srv.Ready) })
	loops.Go(func() error { return poller.Run(ctx) })
	loops.Go(func() error { return srv.Run(ctx) })
	if err := loops.Wait(); err != nil {
		return fmt.Errorf("running %s: %w", name, err)
	}
	return nil
}

// Command muniment-ledger records crawls, captures and where their archives
// are, and hosts the HTTP gateway for all services. Its settings are the
// environment variables of the struct in settings.go, with the prefix
// MUNIMENT_LEDGER_.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/daemon"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/identity"
	"github.com/muniment/muniment/pkg/objstore"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/services/ledger/internal/admission"
	"github.com/muniment/muniment/services/ledger/internal/crawl"
	"github.com/muniment/muniment/services/ledger/internal/listing"
	"github.com/muniment/muniment/services/ledger/internal/server"
	"github.com/muniment/muniment/services/ledger/internal/sink"
	"github.com/muniment/muniment/services/ledger/internal/store"
	"github.com/muniment/muniment/services/ledger/internal/windmill"
)

func main() { daemon.Main("muniment-ledger", prefix, run) }

func run(ctx context.Context, environ []string) error {
	var cfg settings
	if err := config.Load(prefix, environ, &cfg, nil); err != nil {
		return err
	}
	log, err := telemetry.NewLogger("ledger", daemon.Version, cfg.LogLevel)
	if err != nil {
		return err
	}
	reg := telemetry.NewRegistry("ledger", daemon.Version)
	stopTracing, err := telemetry.StartTracing(ctx, cfg.OTLPEndpoint, "ledger", daemon.Version)
	if err != nil {
		return err
	}
	defer func() { _ = stopTracing(context.WithoutCancel(ctx)) }()

	pool, err := pg.Open(ctx, cfg.Database, "ledger")
	if err != nil {
		return err
	}
	defer pool.Close()
	objects, err := objstore.New(cfg.Store)
	if err != nil {
		return err
	}
	engine, err := fga.New(cfg.OpenFGA, time.Now)
	if err != nil {
		return err
	}
	verifier, err := identity.New(cfg.Identity, []string{cfg.HTTPAddress, cfg.GRPCAddress}, log, time.Now)
	if err != nil {
		return err
	}

	rows := store.New(pool)
	tokens := sink.NewTokens([]byte(cfg.SinkSecret))
	admitter := admission.New(rows, objects, admission.Settings{
		Bucket: cfg.Bucket, AllowedBuckets: cfg.allowedBuckets(),
		Concurrency: cfg.ManifestConcurrency, ReadTimeout: cfg.ManifestTimeout, LevelTimeout: cfg.LevelReadTimeout,
	}, admission.NewMetrics(reg), log)
	dispatcher := windmill.NewDispatcher(rows, windmill.NewWebhook(cfg.WebhookURL, cfg.WebhookToken, cfg.WebhookTimeout), tokens,
		windmill.Settings{Signing: cfg.Signing, SinkOrigin: cfg.SinkOrigin}, log, time.Now)
	crawls := crawl.New(rows, admitter, objects, dispatcher.Wake, crawl.Settings{
		Bucket: cfg.Bucket, Deadline: crawl.Deadline{Base: cfg.LevelBase, PerPage: cfg.LevelPerPage}, Sink: cfg.SinkOrigin != "",
		LinksConcurrency: cfg.LinksConcurrency, LinksTimeout: cfg.LinksTimeout, LevelTimeout: cfg.LevelReadTimeout,
	}, log, time.Now)
	overdue := crawl.NewOverdue(rows, reg, log, time.Now)
	shares, err := newSharing(cfg, rows, engine, reg, log)
	if err != nil {
		return err
	}
	defer shares.close()

	callers := server.Callers()
	authenticate := identity.Authenticate(verifier, server.WithoutIdentity(), "ledger")
	if cfg.WebhookURL == "" {
		authenticate = server.WithoutCrawls(authenticate)
	}
	srv, err := grpcx.NewServer(grpcx.ServerSettings{
		Address: cfg.GRPCAddress, TLS: cfg.tls(), Callers: callers,
		Checks: []grpcx.Check{
			{Name: "database", Run: rows.Ready},
			{Name: "authorization engine", Run: engine.Ready},
			{Name: "identity", Run: verifier.Check},
			{Name: "object store", Run: func(ctx context.Context) error { return objects.Ready(ctx, cfg.Bucket) }},
		},
		// The gateway in front drains first, with half of the time.
		MaxConnectionAge: cfg.MaxConnectionAge, ShutdownTimeout: cfg.ShutdownTimeout / 2,
		Authenticate: authenticate,
	}, reg, log)
	if err != nil {
		return err
	}
	ledgerv1.RegisterCrawlServiceServer(srv, server.NewCrawls(rows, crawls, engine, time.Now))
	ledgerv1.RegisterRegistryServiceServer(srv, server.NewRegistry(rows, admitter, cfg.Bucket))
	ledgerv1.RegisterArchiveServiceServer(srv, server.NewArchives(rows, listing.New(rows, engine, time.Now), engine, time.Now))
	ledgerv1.RegisterTargetServiceServer(srv, server.NewTargets(rows, engine, time.Now))
	ledgerv1.RegisterSharingServiceServer(srv, server.NewSharing(shares))

	http, err := newGateway(cfg, crawl.NewArtifacts(rows, crawls), tokens, verifier, reg, log)
	if err != nil {
		return err
	}
	defer http.close()

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return telemetry.ServeDebug(ctx, cfg.DebugAddress, reg, func() error { return errors.Join(srv.Ready(), http.Ready()) })
	})
	if cfg.WebhookURL != "" {
		group.Go(func() error { return dispatcher.Run(ctx) })
	}
	group.Go(func() error { return overdue.Run(ctx) })
	group.Go(func() error { return shares.remover.Run(ctx) })
	group.Go(func() error { return verifier.Run(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		srv.SayNotReady()
		return nil
	})
	// Requests in flight at the gateway call the server: it goes down after it.
	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error {
		defer stopServer()
		return http.Run(ctx)
	})
	group.Go(func() error {
		if err := srv.Run(serverCtx); err != nil {
			return fmt.Errorf("running the gRPC server: %w", err)
		}
		return nil
	})
	return group.Wait()
}

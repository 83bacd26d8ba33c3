// Command muniment-reconciler fills the ledger's holes from recorded manifest
// keys. Its settings are the environment variables of the struct below, with
// the prefix MUNIMENT_RECONCILER_.
package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/daemon"
	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/objstore"
	reconcilerv1 "github.com/muniment/muniment/pkg/pb/muniment/reconciler/v1"
	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/services/reconciler/internal/reconcile"
	"github.com/muniment/muniment/services/reconciler/internal/server"
	"github.com/muniment/muniment/services/reconciler/internal/store"
)

const prefix = "MUNIMENT_RECONCILER_"

type settings struct {
	config.Service
	config.Database
	config.Store
	// LedgerAddress is where the ledger's gRPC server is: host:port, or several
	// with commas between.
	LedgerAddress string `env:"LEDGER_ADDRESS,required"`
	// Every is the time between two passes over the holes.
	Every time.Duration `env:"EVERY" envDefault:"30s"`
	// PageSize is how many holes are asked for at a time (1 to 1000), and
	// Concurrency how many manifests are read at once.
	PageSize    int32 `env:"PAGE_SIZE" envDefault:"200"`
	Concurrency int   `env:"CONCURRENCY" envDefault:"8"`
	// ReadTimeout bounds the download of one manifest.
	ReadTimeout time.Duration `env:"READ_TIMEOUT" envDefault:"15s"`
	// Backoff is the wait after a first failed try; it doubles up to MaxBackoff.
	Backoff    time.Duration `env:"BACKOFF" envDefault:"30s"`
	MaxBackoff time.Duration `env:"MAX_BACKOFF" envDefault:"6h"`
}

// Validate checks the relations between the settings.
func (s *settings) Validate(prefix string) error {
	switch {
	case s.PageSize < 1 || s.PageSize > 1000:
		return fmt.Errorf("%sPAGE_SIZE (%d) must be 1 to 1000", prefix, s.PageSize)
	case s.Concurrency < 1 || s.Concurrency > 256:
		return fmt.Errorf("%sCONCURRENCY (%d) must be 1 to 256", prefix, s.Concurrency)
	case s.Every < time.Second:
		return fmt.Errorf("%sEVERY (%s) must be at least 1s", prefix, s.Every)
	case s.ReadTimeout <= 0:
		return fmt.Errorf("%sREAD_TIMEOUT (%s) must be positive", prefix, s.ReadTimeout)
	case s.Backoff <= 0 || s.MaxBackoff < s.Backoff:
		return fmt.Errorf("%sBACKOFF (%s) must be positive and not above %sMAX_BACKOFF (%s)", prefix, s.Backoff, prefix, s.MaxBackoff)
	}
	for _, part := range []config.Validator{s.Service, s.Database, s.Store} {
		if err := part.Validate(prefix); err != nil {
			return err
		}
	}
	return nil
}

func main() { daemon.Main("muniment-reconciler", prefix, run) }

func run(ctx context.Context, environ []string) error {
	var cfg settings
	if err := config.Load(prefix, environ, &cfg, nil); err != nil {
		return err
	}
	log, err := telemetry.NewLogger("reconciler", daemon.Version, cfg.LogLevel)
	if err != nil {
		return err
	}
	reg := telemetry.NewRegistry("reconciler", daemon.Version)
	stopTracing, err := telemetry.StartTracing(ctx, cfg.OTLPEndpoint, "reconciler", daemon.Version)
	if err != nil {
		return err
	}
	defer func() { _ = stopTracing(context.WithoutCancel(ctx)) }()

	pool, err := pg.Open(ctx, cfg.Database, "reconciler")
	if err != nil {
		return err
	}
	defer pool.Close()
	objects, err := objstore.New(cfg.Store)
	if err != nil {
		return err
	}
	tls := grpcx.TLSFiles{Cert: cfg.TLSCertFile, Key: cfg.TLSKeyFile, CA: cfg.TLSCAFile}
	ledger, err := grpcx.Dial(cfg.LedgerAddress, "ledger", tls)
	if err != nil {
		return err
	}
	defer func() { _ = ledger.Close() }()

	attempts := store.New(pool)
	loop := reconcile.New(reconcile.NewLedger(ledger), attempts, objects, reconcile.Settings{
		Every: cfg.Every, PageSize: cfg.PageSize, Concurrency: cfg.Concurrency,
		ReadTimeout: cfg.ReadTimeout, Backoff: cfg.Backoff, MaxBackoff: cfg.MaxBackoff,
	}, reconcile.NewMetrics(reg), log, time.Now)

	srv, err := grpcx.NewServer(grpcx.ServerSettings{
		Address: cfg.GRPCAddress,
		TLS:     tls,
		Callers: grpcx.Callers{
			reconcilerv1.ReconcilerService_RunOnce_FullMethodName: {"operator"},
		},
		Checks: []grpcx.Check{
			{Name: "database", Run: attempts.Ready},
			{Name: "object store", Run: func(ctx context.Context) error { return objects.Ready(ctx, cfg.Bucket) }},
		},
		MaxConnectionAge: cfg.MaxConnectionAge,
		DrainDelay:       cfg.DrainDelay,
		ShutdownTimeout:  cfg.ShutdownTimeout,
	}, reg, log)
	if err != nil {
		return err
	}
	reconcilerv1.RegisterReconcilerServiceServer(srv, server.New(loop))

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return telemetry.ServeDebug(ctx, cfg.DebugAddress, reg, srv.Ready) })
	group.Go(func() error { return loop.Run(ctx) })
	group.Go(func() error { return srv.Run(ctx) })
	return group.Wait()
}

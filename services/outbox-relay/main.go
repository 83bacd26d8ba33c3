// Command muniment-outbox-relay delivers the tuples that others queued in
// Postgres to OpenFGA. Its settings are the environment variables of the struct
// below, with the prefix MUNIMENT_RELAY_.
package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/daemon"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/grpcx"
	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/services/outbox-relay/internal/relay"
	"github.com/muniment/muniment/services/outbox-relay/internal/server"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

const prefix = "MUNIMENT_RELAY_"

type settings struct {
	config.Service
	config.Database
	config.OpenFGA
	// ListenDatabaseURL leads to the server itself, past any pooler; the relay
	// listens there for rows being queued. Where it is not set, DATABASE_URL is
	// used in mode "prepared", and in mode "exec" the relay polls only.
	ListenDatabaseURL string `env:"LISTEN_DATABASE_URL"`
	// Workers is how many requests to the engine run at once, and BatchRows how
	// many rows a worker takes at a time: of an archive's rows, with three tuples
	// each, ten full requests' worth. A request that is not full costs the engine
	// nearly as much.
	Workers   int `env:"WORKERS" envDefault:"4"`
	BatchRows int `env:"BATCH_ROWS" envDefault:"330"`
	// TuplesPerRequest is the engine's own limit for one write
	// (OPENFGA_MAX_TUPLES_PER_WRITE); BytesPerRequest stays below its limit for
	// a message, which is about 600 kB.
	TuplesPerRequest int `env:"TUPLES_PER_REQUEST" envDefault:"100"`
	BytesPerRequest  int `env:"BYTES_PER_REQUEST" envDefault:"400000"`
	// PollInterval (at most 5 s) is how long a row can go unnoticed when its
	// notification got lost.
	PollInterval time.Duration `env:"POLL_INTERVAL" envDefault:"5s"`
	// Lease is how long the rows of a relay that died are kept from the others.
	Lease time.Duration `env:"LEASE" envDefault:"15s"`
	// Settle is how long a row rests after a request for it got no answer: as
	// long as the engine may still be working at it
	// (OPENFGA_REQUEST_TIMEOUT, 3 s, and the way there).
	Settle time.Duration `env:"SETTLE" envDefault:"5s"`
	// MaxAttempts is how often the engine may refuse a row before it is set
	// aside; RetryDelay is the first pause between, and doubles.
	MaxAttempts int           `env:"MAX_ATTEMPTS" envDefault:"3"`
	RetryDelay  time.Duration `env:"RETRY_DELAY" envDefault:"500ms"`
}

// Validate checks the relations between the settings.
func (s *settings) Validate(prefix string) error {
	for _, part := range []config.Validator{s.Service, s.Database, s.OpenFGA} {
		if err := part.Validate(prefix); err != nil {
			return err
		}
	}
	if err := s.relay().Validate(); err != nil {
		return fmt.Errorf("%s…: %w", prefix, err)
	}
	return nil
}

func (s *settings) relay() relay.Settings {
	return relay.Settings{
		Workers: s.Workers, BatchRows: s.BatchRows,
		TuplesPerRequest: s.TuplesPerRequest, BytesPerRequest: s.BytesPerRequest,
		PollInterval: s.PollInterval, Lease: s.Lease, CallTimeout: s.Timeout, Settle: s.Settle,
		MaxAttempts: s.MaxAttempts, RetryDelay: s.RetryDelay,
	}
}

func main() { daemon.Main("muniment-outbox-relay", prefix, run) }

func run(ctx context.Context, environ []string) error {
	var cfg settings
	if err := config.Load(prefix, environ, &cfg, nil); err != nil {
		return err
	}
	log, err := telemetry.NewLogger("outbox-relay", daemon.Version, cfg.LogLevel)
	if err != nil {
		return err
	}
	reg := telemetry.NewRegistry("outbox-relay", daemon.Version)
	stopTracing, err := telemetry.StartTracing(ctx, cfg.OTLPEndpoint, "outbox-relay", daemon.Version)
	if err != nil {
		return err
	}
	defer func() { _ = stopTracing(context.WithoutCancel(ctx)) }()

	pool, err := pg.Open(ctx, cfg.Database, "outbox-relay")
	if err != nil {
		return err
	}
	defer pool.Close()
	engine, err := fga.New(cfg.OpenFGA, time.Now)
	if err != nil {
		return err
	}
	queue := store.New(pool)
	loops, err := relay.New(queue, engine, store.NewListener(cfg.Database, cfg.ListenDatabaseURL, queue), cfg.relay(), reg, log, time.Now)
	if err != nil {
		return err
	}
	srv, err := grpcx.NewServer(grpcx.ServerSettings{
		Address: cfg.GRPCAddress,
		TLS:     grpcx.TLSFiles{Cert: cfg.TLSCertFile, Key: cfg.TLSKeyFile, CA: cfg.TLSCAFile},
		Callers: grpcx.Callers{
			outboxrelayv1.OutboxService_Stats_FullMethodName:    {"operator"},
			outboxrelayv1.OutboxService_ListDead_FullMethodName: {"operator"},
			outboxrelayv1.OutboxService_Retry_FullMethodName:    {"operator"},
			outboxrelayv1.OutboxService_Discard_FullMethodName:  {"operator"},
			outboxrelayv1.OutboxService_Drain_FullMethodName:    {"operator"},
			// The ledger tells whoever shares or deletes whether it has arrived.
			outboxrelayv1.OutboxService_WaitDelivered_FullMethodName: {"ledger"},
		},
		Checks:           []grpcx.Check{{Name: "database", Run: queue.Ready}, {Name: "authorization engine", Run: engine.Ready}},
		MaxConnectionAge: cfg.MaxConnectionAge,
		DrainDelay:       cfg.DrainDelay,
		ShutdownTimeout:  cfg.ShutdownTimeout,
	}, reg, log)
	if err != nil {
		return err
	}
	outboxrelayv1.RegisterOutboxServiceServer(srv, server.New(queue, loops, log))

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return telemetry.ServeDebug(ctx, cfg.DebugAddress, reg, srv.Ready) })
	group.Go(func() error { return loops.Run(ctx) })
	group.Go(func() error { return srv.Run(ctx) })
	return group.Wait()
}

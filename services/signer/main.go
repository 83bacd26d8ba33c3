// Command muniment-signer hands out short-lived URLs of archives to those who
// may view them. Its settings are the environment variables of the struct below,
// with the prefix MUNIMENT_SIGNER_.
package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/daemon"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/identity"
	ledgerpb "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	signerpb "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/services/signer/internal/presign"
	"github.com/muniment/muniment/services/signer/internal/server"
	"github.com/muniment/muniment/services/signer/internal/skew"
	"github.com/muniment/muniment/services/signer/internal/store"
)

const prefix = "MUNIMENT_SIGNER_"

type settings struct {
	config.Service
	config.Database
	config.OpenFGA
	// Identity must be as the gateway's: the signer verifies the same tokens.
	Identity identity.Settings
	Presign  presign.Settings
	// LedgerAddress is where the ledger's gRPC server is: host:port, or several
	// with commas between.
	LedgerAddress string `env:"LEDGER_ADDRESS,required"`
	// ServiceIdentities lets services ask for themselves: peer:subject, with
	// commas between. Their certificate then stands for that subject, who sees
	// what the engine lets him see.
	ServiceIdentities map[string]string `env:"SERVICE_IDENTITIES"`
}

// Validate checks the relations between the settings.
func (s *settings) Validate(prefix string) error {
	for peer, subject := range s.ServiceIdentities {
		if err := identity.CheckSubject(subject); err != nil {
			return fmt.Errorf("%sSERVICE_IDENTITIES: the subject of %q %w", prefix, peer, err)
		}
		if peer == server.Gateway {
			return fmt.Errorf("%sSERVICE_IDENTITIES must not list the gateway (%s): a request without a user would be everybody's", prefix, peer)
		}
	}
	for _, part := range []config.Validator{s.Service, s.Database, s.OpenFGA, s.Identity, s.Presign} {
		if err := part.Validate(prefix); err != nil {
			return err
		}
	}
	return nil
}

func main() { daemon.Main("muniment-signer", prefix, run) }

func run(ctx context.Context, environ []string) error {
	var cfg settings
	if err := config.Load(prefix, environ, &cfg, nil); err != nil {
		return err
	}
	log, err := telemetry.NewLogger("signer", daemon.Version, cfg.LogLevel)
	if err != nil {
		return err
	}
	reg := telemetry.NewRegistry("signer", daemon.Version)
	stopTracing, err := telemetry.StartTracing(ctx, cfg.OTLPEndpoint, "signer", daemon.Version)
	if err != nil {
		return err
	}
	defer func() { _ = stopTracing(context.WithoutCancel(ctx)) }()

	pool, err := pg.Open(ctx, cfg.Database, "signer")
	if err != nil {
		return err
	}
	defer pool.Close()
	engine, err := fga.New(cfg.OpenFGA, time.Now)
	if err != nil {
		return err
	}
	verifier, err := identity.New(cfg.Identity, []string{cfg.GRPCAddress}, log, time.Now)
	if err != nil {
		return err
	}
	credentials, err := presign.NewFiles(cfg.Presign, log, time.Now)
	if err != nil {
		return err
	}
	tls := grpcx.TLSFiles{Cert: cfg.TLSCertFile, Key: cfg.TLSKeyFile, CA: cfg.TLSCAFile}
	ledger, err := grpcx.Dial(cfg.LedgerAddress, "ledger", tls)
	if err != nil {
		return err
	}
	defer func() { _ = ledger.Close() }()

	issued := store.New(pool)
	clock := skew.New(cfg.Presign.Endpoint, reg, log, time.Now)
	callers := append(slices.Sorted(maps.Keys(cfg.ServiceIdentities)), server.Gateway)

	srv, err := grpcx.NewServer(grpcx.ServerSettings{
		Address: cfg.GRPCAddress,
		TLS:     tls,
		Callers: grpcx.Callers{
			signerpb.SignerService_SignArchive_FullMethodName:  callers,
			signerpb.SignerService_SignArchives_FullMethodName: callers,
		},
		Checks: []grpcx.Check{
			{Name: "database", Run: issued.Check},
			{Name: "authorization engine", Run: engine.Ready},
			{Name: "identity", Run: verifier.Check},
			{Name: "credentials", Run: credentials.Check},
		},
		MaxConnectionAge: cfg.MaxConnectionAge,
		DrainDelay:       cfg.DrainDelay,
		ShutdownTimeout:  cfg.ShutdownTimeout,
		Authenticate:     server.Authenticate(verifier, cfg.ServiceIdentities),
	}, reg, log)
	if err != nil {
		return err
	}
	presigner := presign.New(cfg.Presign, credentials, time.Now)
	signerpb.RegisterSignerServiceServer(srv, server.New(ledgerpb.NewRegistryServiceClient(ledger), engine, presigner, issued, reg, log, time.Now))

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return telemetry.ServeDebug(ctx, cfg.DebugAddress, reg, srv.Ready) })
	group.Go(func() error { return verifier.Run(ctx) })
	group.Go(func() error { return credentials.Run(ctx) })
	group.Go(func() error { return clock.Run(ctx) })
	group.Go(func() error { return srv.Run(ctx) })
	return group.Wait()
}

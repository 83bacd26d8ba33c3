package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/muniment/muniment/pkg/config"
)

const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// drain is the gateway's way down, seen by readiness and by every reply.
type drain struct{ on atomic.Bool }

func (d *drain) draining() bool { return d.on.Load() }

// Ready returns nil, or one line that says why no request should come here.
func (g *Gateway) Ready() error {
	if g.state.draining() {
		return errors.New("shutting down")
	}
	return nil
}

// Run listens and serves until ctx ends, then goes down: not ready first,
// serving on for DrainDelay, then waiting for requests in flight, and at
// ShutdownTimeout closing what is left. The gRPC server behind it must outlive
// it, since requests in flight still call it.
func (g *Gateway) Run(ctx context.Context) error {
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", g.settings.Address)
	if err != nil {
		return &config.SettingError{Setting: "HTTP_ADDRESS", Err: fmt.Errorf("choose a free address: %w", err)}
	}
	return g.Serve(ctx, lis)
}

// Serve is Run on a listener that is already there.
func (g *Gateway) Serve(ctx context.Context, lis net.Listener) error {
	logger, err := zap.NewStdLogAt(g.log, zapcore.DebugLevel)
	if err != nil {
		return fmt.Errorf("preparing the HTTP server's log: %w", err)
	}
	srv := &http.Server{
		Handler:           g,
		ReadHeaderTimeout: headerTimeout,
		// A body's arrival is bounded by its reader, and a reply by the time that
		// the call may take and as much again to be read.
		WriteTimeout:                 2 * g.settings.RequestTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     logger,
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	g.log.Info("serving", zap.String("http_address", lis.Addr().String()))
	select {
	case err := <-served:
		return fmt.Errorf("serving HTTP: %w", err)
	case <-ctx.Done():
	}
	return g.shutdown(context.WithoutCancel(ctx), srv, served)
}

func (g *Gateway) shutdown(ctx context.Context, srv *http.Server, served <-chan error) error {
	limit, cancel := context.WithTimeout(ctx, g.settings.ShutdownTimeout)
	defer cancel()
	g.state.on.Store(true)
	g.log.Info("gateway draining", zap.Duration("delay", g.settings.DrainDelay), zap.Duration("limit", g.settings.ShutdownTimeout))
	delay := time.NewTimer(g.settings.DrainDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-limit.Done():
	}
	if err := srv.Shutdown(limit); err != nil {
		g.log.Warn("requests still in flight at the shutdown limit; closing them")
		_ = srv.Close()
	}
	<-served //nolint:errcheck // it was told to end
	return nil
}

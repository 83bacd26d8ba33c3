// Package serve is the outer shell of the local stack's stand-ins: listen on
// loopback, print one line when ready, stop when told. Nothing of it is for
// production.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// shutdownLimit bounds how long running requests may take to end.
const shutdownLimit = 5 * time.Second

// HTTP serves handler on address until ctx ends. The address must be a loopback
// one: the stand-ins have no place on a network. When it listens it writes one
// line, "<name>: ready on http://<address>", to out.
func HTTP(ctx context.Context, out io.Writer, name, address string, handler http.Handler) error {
	if err := loopback(address); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w; choose another address with -listen", address, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if _, err := fmt.Fprintf(out, "%s: ready on http://%s\n", name, listener.Addr()); err != nil {
		return errors.Join(fmt.Errorf("printing the ready line: %w", err), server.Close())
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serving on %s: %w", address, err)
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		return errors.Join(fmt.Errorf("shutting down: %w", err), server.Close())
	}
	return nil
}

func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("-listen %q: want host:port, such as 127.0.0.1:8080", address)
	}
	if ip := net.ParseIP(host); host == "localhost" || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("-listen %q: a stand-in listens on loopback only, such as 127.0.0.1:8080", address)
}

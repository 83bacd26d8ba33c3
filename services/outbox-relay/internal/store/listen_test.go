package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

func TestListenerHearsQueuedRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	listener := store.NewListener(config.Database{URL: b.db.URL("relay"), Mode: "prepared"}, "", b.store)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan struct{}, 10)
	ended := make(chan error, 1)
	go func() { ended <- listener.Listen(ctx, func() { heard <- struct{}{} }) }()
	hear := func(what string) {
		t.Helper()
		select {
		case <-heard:
		case err := <-ended:
			t.Fatalf("the listener ended: %v", err)
		case <-time.After(10 * time.Second):
			t.Fatalf("heard nothing after %s", what)
		}
	}
	hear("the self-test")
	b.queue(t, write("capture_job:1"))
	hear("a row was queued")
	cancel()
	if err := <-ended; err == nil {
		t.Error("the listener ended without a reason")
	}
}

// Behind a pooler (mode exec) and without a direct connection nothing is
// listened to, instead of listening to nothing.
func TestT29NoListeningThroughThePooler(t *testing.T) {
	t.Parallel()
	b := setup(t)
	listener := store.NewListener(config.Database{URL: b.db.URL("relay"), Mode: "exec"}, "", b.store)
	if err := listener.Listen(t.Context(), func() {}); !errors.Is(err, store.ErrNotListening) {
		t.Errorf("listening: %v", err)
	}
}

// A connection over which notifications do not arrive is found out at the
// start. The server that accepts LISTEN and stays silent is here another
// database of the same server, which is what a pooler amounts to.
func TestT29SilentConnectionIsFoundOut(t *testing.T) {
	t.Parallel()
	b, elsewhere := setup(t), setup(t)
	listener := store.NewListener(config.Database{URL: b.db.URL("relay"), Mode: "exec"}, elsewhere.db.URL("relay"), b.store)
	if err := listener.Listen(t.Context(), func() { t.Error("heard something") }); !errors.Is(err, store.ErrNoNotifications) {
		t.Errorf("listening: %v", err)
	}
}

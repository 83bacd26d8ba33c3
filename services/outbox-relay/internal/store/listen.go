package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/config"
)

// channel is what the outbox's insert trigger notifies.
const channel = "fga_outbox"

// selfTest is how long a notification of our own may take to come back.
const selfTest = 3 * time.Second

// ErrNoNotifications is returned where LISTEN was accepted and nothing arrives:
// a pooler in transaction mode stands in between.
var ErrNoNotifications = errors.New("notifications do not arrive over this connection; it must not go through a pooler")

// ErrNotListening is returned where no direct connection is configured.
var ErrNotListening = errors.New("no direct connection to listen on is configured")

// Listener waits for rows to be queued, over a connection of its own. It is a
// hint that makes delivery fast; a relay polls all the same.
type Listener struct {
	url, password string
	store         *Store
}

// NewListener prepares a listener on directURL, which must lead past any pooler.
// Where that is empty it takes the service's own URL, unless its mode says that
// a pooler stands there.
func NewListener(settings config.Database, directURL string, store *Store) *Listener {
	if directURL == "" && settings.Mode == "prepared" {
		directURL = settings.URL
	}
	return &Listener{url: directURL, password: settings.Password, store: store}
}

// Listen calls queued once when notifications are known to arrive and then for
// each that does, until ctx ends or the connection breaks.
func (l *Listener) Listen(ctx context.Context, queued func()) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if err := l.test(ctx, conn); err != nil {
		return err
	}
	for {
		queued()
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("waiting for notifications: %w", err)
		}
	}
}

func (l *Listener) connect(ctx context.Context) (*pgx.Conn, error) {
	if l.url == "" {
		return nil, ErrNotListening
	}
	cfg, err := pgx.ParseConfig(l.url)
	if err != nil {
		return nil, errors.New("parsing the URL to listen on: not a usable postgres:// URL")
	}
	if l.password != "" {
		cfg.Password = l.password
	}
	cfg.ConnectTimeout = 5 * time.Second
	cfg.RuntimeParams["application_name"] = "muniment-outbox-relay-listen"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to listen: %w", err)
	}
	return conn, nil
}

// test listens and sends one notification the way the trigger's come: from
// another connection.
func (l *Listener) test(ctx context.Context, conn *pgx.Conn) error {
	limited, cancel := context.WithTimeout(ctx, selfTest)
	defer cancel()
	if _, err := conn.Exec(limited, "LISTEN "+channel, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if _, err := l.store.pool.Exec(limited, "SELECT pg_notify($1, 'self-test')", channel); err != nil {
		return fmt.Errorf("sending a notification to ourselves: %w", err)
	}
	if _, err := conn.WaitForNotification(limited); err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			return ErrNoNotifications
		}
		return fmt.Errorf("waiting for a notification of our own: %w", err)
	}
	return nil
}

// Package relay delivers queued tuples to the authorization engine: at least
// once, and for each object in the order of commits, whatever the number of
// relays.
//
// Order rests on three things. The database takes ids in commit order for each
// key. A claim takes a row only when no earlier undelivered row of its keys is
// left, so the rows of one claim are independent of each other and everything
// later waits in the database. And a request is sent only while the claim still
// covers the longest time that it can be under way (the call's own limit, and
// Settle for one that we have given up on but the engine has not): a row is
// never given to another relay while an old request for it may still land.
//
// What cannot be excluded is a relay whose process is frozen by its machine
// between looking at its lease and sending, for longer than the lease; the
// engine has no fencing token that would catch it.
package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

// outbox is the queue; store.Store is it.
type outbox interface {
	Claim(ctx context.Context, claim uuid.UUID, lease time.Duration, limit int) ([]store.Row, error)
	Renew(ctx context.Context, claim uuid.UUID, ids []int64, lease time.Duration) error
	Advance(ctx context.Context, claim uuid.UUID, id int64, tuplesDone int) error
	Deliver(ctx context.Context, claim uuid.UUID, ids []int64) error
	Release(ctx context.Context, claim uuid.UUID, ids []int64, wait time.Duration) error
	Refuse(ctx context.Context, claim uuid.UUID, id int64, reason string, wait time.Duration, dead bool) error
	Stats(ctx context.Context) (store.Stats, error)
}

// engine is the authorization engine; fga.Client is it. A write lands whole or
// not at all, and what is there already counts as landed.
type engine interface {
	Write(ctx context.Context, writes []fga.Tuple, deletes []fga.Key) error
}

// listener calls queued whenever rows may have been queued, until it fails.
type listener interface {
	Listen(ctx context.Context, queued func()) error
}

// Settings of a relay.
type Settings struct {
	// Workers is how many requests run at once, and how many claims are held.
	Workers int
	// BatchRows bounds one claim.
	BatchRows int
	// TuplesPerRequest is the engine's limit, writes and deletes together.
	TuplesPerRequest int
	// BytesPerRequest keeps a request below the engine's message size.
	BytesPerRequest int
	// PollInterval is how long a queued row can go unnoticed.
	PollInterval time.Duration
	// Lease is how long a claim holds; when a relay dies its rows wait for the
	// rest of it.
	Lease time.Duration
	// CallTimeout bounds one request to the engine, and Settle the time after
	// which one that got no answer has certainly ended in the engine too.
	CallTimeout, Settle time.Duration
	// MaxAttempts is how often a row is refused before it is set aside; the
	// first retry comes after RetryDelay, each further one after twice as long.
	MaxAttempts int
	RetryDelay  time.Duration
}

// Validate checks the settings against each other.
func (s Settings) Validate() error {
	switch {
	case s.Workers < 1, s.BatchRows < 1, s.TuplesPerRequest < 1, s.BytesPerRequest < 1, s.MaxAttempts < 1:
		return errors.New("workers, batch rows, tuples and bytes per request and attempts must be at least 1")
	case s.PollInterval <= 0 || s.PollInterval > 5*time.Second:
		return fmt.Errorf("the poll interval (%s) must be above 0 and at most 5s", s.PollInterval)
	case s.CallTimeout <= 0 || s.CallTimeout > 3*time.Second:
		return fmt.Errorf("the limit of one call of the engine (%s) must be above 0 and at most 3s", s.CallTimeout)
	case s.Lease < s.CallTimeout+s.Settle+time.Second:
		return fmt.Errorf("the lease (%s) must be longer, by 1s or more, than the limit of one call (%s) and the settling time (%s) together",
			s.Lease, s.CallTimeout, s.Settle)
	}
	return nil
}

// Relay is one replica's loops.
type Relay struct {
	outbox   outbox
	engine   engine
	listener listener // nil: polling only
	settings Settings
	metrics  *metrics
	log      *zap.Logger
	now      func() time.Time

	gate *gate
	// turns holds a token for each request that runs.
	turns chan struct{}
	// wake holds a token for each worker that should look now.
	wake chan struct{}
}

// New makes a relay; listen may be nil.
func New(queue outbox, write engine, listen listener, settings Settings, registry prometheus.Registerer, log *zap.Logger, now func() time.Time) (*Relay, error) {
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	return &Relay{
		outbox: queue, engine: write, listener: listen, settings: settings,
		metrics: newMetrics(registry, now), log: log, now: now,
		gate: newGate(now), turns: make(chan struct{}, settings.Workers), wake: make(chan struct{}, settings.Workers),
	}, nil
}

// Run delivers until ctx ends. Requests under way are finished first, and rows
// that were claimed and not sent are given back.
func (r *Relay) Run(ctx context.Context) error {
	var loops errgroup.Group
	for range r.settings.Workers {
		loops.Go(func() error { r.work(ctx); return nil })
	}
	loops.Go(func() error { r.observe(ctx); return nil })
	if r.listener != nil {
		loops.Go(func() error { r.listen(ctx); return nil })
	}
	return loops.Wait()
}

// Wake makes all workers look at the queue now, and at the engine even if it was
// away a moment ago.
func (r *Relay) Wake() {
	r.gate.tryNow()
	for range r.settings.Workers {
		r.wakeOne()
	}
}

func (r *Relay) wakeOne() {
	select {
	case r.wake <- struct{}{}:
	default: // enough workers are about to look
	}
}

// work is one worker: rounds while they move rows, then waiting for a
// notification or the poll.
func (r *Relay) work(ctx context.Context) {
	var due time.Time // when a row that we gave back may be taken again
	failures := 0
	for {
		leave, err := r.gate.enter(ctx)
		if err != nil {
			return
		}
		done, err := r.round(ctx)
		leave()
		if done.again > 0 && (due.IsZero() || r.now().Add(done.again).Before(due)) {
			due = r.now().Add(done.again)
		}
		if err != nil {
			r.log.Warn("delivering", zap.Error(err))
			pause := min(firstWait<<min(failures, 10), r.settings.PollInterval)
			failures++
			r.sleep(ctx, pause/2+rand.N(pause/2), nil)
			continue
		}
		failures = 0
		if done.claimed == r.settings.BatchRows {
			r.wakeOne() // there is more; a colleague may help
			continue
		}
		if done.delivered > 0 {
			continue // rows that waited behind these may be free now
		}
		r.sleep(ctx, r.idle(&due), r.wake)
	}
}

// idle is how long to wait for the next look. The poll is spread, so that many
// workers do not all come at once.
func (r *Relay) idle(due *time.Time) time.Duration {
	wait := r.settings.PollInterval*4/5 + rand.N(r.settings.PollInterval/5)
	if due.IsZero() {
		return wait
	}
	until := due.Sub(r.now())
	if until <= 0 {
		*due = time.Time{}
		return wait
	}
	return min(wait, until)
}

// sleep waits for d, or until something is received, or ctx ends.
func (r *Relay) sleep(ctx context.Context, d time.Duration, earlier <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-earlier:
	case <-timer.C:
	}
}

// listen keeps the hint alive. Losing it costs speed, never a row.
func (r *Relay) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.listener.Listen(ctx, r.wakeOne)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, store.ErrNotListening) {
			r.log.Info("polling only", zap.Error(err), zap.Duration("poll_interval", r.settings.PollInterval))
			return
		}
		pause := 5 * time.Second
		if errors.Is(err, store.ErrNoNotifications) {
			pause = time.Minute
		}
		r.log.Warn("no notifications, polling only", zap.Error(err), zap.Duration("poll_interval", r.settings.PollInterval))
		r.sleep(ctx, pause, nil)
	}
}

package relay

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

// conflictTries is how often a request that met another write is sent, at once
// and with short pauses; conflictPause is the first of them.
const (
	conflictTries = 4
	conflictPause = 20 * time.Millisecond
)

// maxReason bounds what is kept of the engine's words, in bytes.
const maxReason = 2000

// outcome is what came of one claim.
type outcome struct {
	claimed, delivered int
	// again is when a row that was given back may be taken anew; zero when none.
	again time.Duration
}

// batch is the rows of one claim. Its packs are on their way side by side.
type batch struct {
	*Relay
	claim uuid.UUID
	// outage is the gate's, when the batch set out: a later one ends it.
	outage int

	// mu is held while the database is told about rows, too: what is renewed or
	// given back is what nobody settles at that moment.
	mu sync.Mutex
	// until is when the lease ends by our clock, at the latest.
	until time.Time
	// open are the rows that are still ours and not settled.
	open map[int64]bool
	outcome
}

// errGivenUp says that a request was not sent, because the relay shuts down or
// the engine was found away meanwhile. Its rows are given back.
var errGivenUp = errors.New("not sent")

// round claims rows and delivers them. An error is the database's; whatever
// happens, no row is left claimed for longer than the lease.
//
// Once claimed, the work goes on to the end of the requests under way even when
// ctx ends: a request that is cut off leaves its rows in doubt, one that is
// finished does not.
func (r *Relay) round(ctx context.Context) (outcome, error) {
	if ctx.Err() != nil {
		return outcome{}, nil //nolint:nilerr // told to stop before anything was begun
	}
	work := context.WithoutCancel(ctx)
	b := &batch{
		Relay: r, claim: uuid.New(), outage: r.gate.outage(),
		until: r.now().Add(r.settings.Lease), open: map[int64]bool{},
	}
	rows, err := r.outbox.Claim(work, b.claim, r.settings.Lease, r.settings.BatchRows)
	if err != nil || len(rows) == 0 {
		return outcome{}, err
	}
	b.claimed = len(rows)
	for _, row := range rows {
		b.open[row.ID] = true
	}
	err = b.deliver(ctx, work, rows)
	return b.outcome, errors.Join(err, b.release(work, nil, 0))
}

// deliver sends the packs side by side: they share no object. Workers requests
// run at once, over all batches, so that the engine is kept busy while one batch
// is claimed. The first pack goes alone where nobody knows whether the engine is
// back.
func (b *batch) deliver(stop, work context.Context, rows []store.Row) error {
	deliveries, err := b.parse(work, rows)
	if err != nil {
		return err
	}
	packs := b.limits().pack(deliveries)
	if len(packs) > 0 && b.gate.closed() {
		if err := b.send(stop, work, packs[0]); err != nil {
			return b.hold(work, packs[0], err)
		}
		packs = packs[1:]
	}
	var sending errgroup.Group
	for _, pack := range packs {
		sending.Go(func() error {
			if err := b.send(stop, work, pack); err != nil {
				return b.hold(work, pack, err)
			}
			return nil
		})
	}
	return sending.Wait()
}

func (r *Relay) limits() limits {
	return limits{tuples: r.settings.TuplesPerRequest, bytes: r.settings.BytesPerRequest}
}

// parse sets rows aside whose payload can be read by nobody: trying again would
// change nothing.
func (b *batch) parse(ctx context.Context, rows []store.Row) ([]*delivery, error) {
	deliveries := make([]*delivery, 0, len(rows))
	for _, row := range rows {
		d, err := parse(row)
		if err == nil {
			deliveries = append(deliveries, d)
			continue
		}
		if err := b.refuse(ctx, &delivery{row: row}, err, true); err != nil {
			return nil, err
		}
	}
	return deliveries, nil
}

// send delivers a pack: rows that fit one request together, or one row that
// needs several. The error is the engine being away, or the database's.
func (b *batch) send(stop, work context.Context, pack []*delivery) error {
	if len(pack) > 1 {
		return b.bisect(stop, work, pack)
	}
	d := pack[0]
	for len(d.ops) > 0 {
		n := b.limits().prefix(d.ops)
		err := b.write(stop, work, d.ops[:n])
		if bad(err) {
			return b.refuse(work, d, err, false)
		}
		if err != nil {
			return err
		}
		d.ops, d.done = d.ops[n:], d.done+n
		if len(d.ops) > 0 {
			if err := b.outbox.Advance(work, b.claim, d.row.ID, d.done); err != nil {
				return err
			}
		}
	}
	return b.delivered(work, pack)
}

// bisect sends rows in one request, and where the engine refuses it, each half
// by itself, until the bad row stands alone. The others land at once.
func (b *batch) bisect(stop, work context.Context, rows []*delivery) error {
	var ops []op
	for _, d := range rows {
		ops = append(ops, d.ops...)
	}
	err := b.write(stop, work, ops)
	switch {
	case err == nil:
		return b.delivered(work, rows)
	case !bad(err):
		return err
	case len(rows) == 1:
		return b.refuse(work, rows[0], err, false)
	}
	half := len(rows) / 2
	if err := b.bisect(stop, work, rows[:half]); err != nil {
		return err
	}
	return b.bisect(stop, work, rows[half:])
}

// write sends one request, again and soon where it met another write.
func (b *batch) write(stop, work context.Context, ops []op) error {
	var writes []fga.Tuple
	var deletes []fga.Key
	for _, o := range ops {
		if o.delete {
			deletes = append(deletes, o.tuple.Key())
		} else {
			writes = append(writes, o.tuple)
		}
	}
	for try := 0; ; try++ {
		err := b.writeOnce(stop, work, writes, deletes)
		if !errors.Is(err, fga.ErrConflict) || try == conflictTries-1 {
			return err
		}
		pause := conflictPause << try
		b.sleep(work, pause/2+rand.N(pause), nil)
	}
}

// writeOnce waits for its turn. The lease is looked at after that, for waiting
// takes of it.
func (b *batch) writeOnce(stop, work context.Context, writes []fga.Tuple, deletes []fga.Key) error {
	select {
	case b.turns <- struct{}{}:
		defer func() { <-b.turns }()
	case <-stop.Done():
	}
	if stop.Err() != nil || b.gate.outage() != b.outage {
		return errGivenUp
	}
	if err := b.keep(work); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(work, b.settings.CallTimeout)
	defer cancel()
	err := b.engine.Write(limited, writes, deletes)
	if err == nil || bad(err) {
		b.gate.succeed() // it answered
	}
	if err == nil {
		b.metrics.requests.Inc()
	}
	return err
}

// keep makes sure that the lease outlasts a request that is sent now, also one
// that the engine goes on with after we have given up on it.
func (b *batch) keep(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.Sub(b.now()) >= b.settings.CallTimeout+b.settings.Settle {
		return nil
	}
	until := b.now().Add(b.settings.Lease)
	if err := b.outbox.Renew(ctx, b.claim, slices.Collect(maps.Keys(b.open)), b.settings.Lease); err != nil {
		return err
	}
	b.until = until
	return nil
}

// delivered marks rows after a clean reply.
func (b *batch) delivered(ctx context.Context, rows []*delivery) error {
	ids := make([]int64, 0, len(rows))
	for _, d := range rows {
		ids = append(ids, d.row.ID)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.outbox.Deliver(ctx, b.claim, ids); err != nil {
		return err
	}
	for _, d := range rows {
		delete(b.open, d.row.ID)
		b.outcome.delivered++
		b.metrics.delivered.Inc()
		b.metrics.seconds.Observe(b.now().Sub(d.row.CreatedAt).Seconds())
	}
	return nil
}

// refuse spends an attempt of a row, and sets it aside after the last.
func (b *batch) refuse(ctx context.Context, d *delivery, why error, final bool) error {
	attempt := d.row.Attempts + 1
	dead := final || attempt >= b.settings.MaxAttempts
	wait := b.settings.RetryDelay << min(attempt-1, 10)
	reason := why.Error()
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.outbox.Refuse(ctx, b.claim, d.row.ID, validText(reason), wait, dead); err != nil {
		return err
	}
	delete(b.open, d.row.ID)
	fields := []zap.Field{zap.Int64("row", d.row.ID), zap.Int("attempt", attempt), zap.Error(why)}
	if dead {
		b.metrics.dead.Inc()
		b.log.Error("row set aside; later rows of its objects wait behind it", fields...)
		return nil
	}
	b.metrics.retried.Inc()
	b.log.Warn("row refused, trying again", append(fields, zap.Duration("wait", wait))...)
	b.lookAgain(wait)
	return nil
}

// lookAgain remembers the earliest time; mu is held.
func (b *batch) lookAgain(wait time.Duration) {
	if b.again == 0 || wait < b.again {
		b.again = wait
	}
}

// hold deals with what stopped a pack. An engine that is away, or that does not
// know our store and model, costs no row an attempt: the gate closes. The rows
// of a request that may still land wait until it cannot. Other errors are the
// database's and are returned.
func (b *batch) hold(ctx context.Context, pack []*delivery, err error) error {
	switch {
	case errors.Is(err, errGivenUp):
		return nil
	case errors.Is(err, store.ErrClaimLost):
		b.log.Warn("another relay took over", zap.Error(err))
		return nil
	}
	wrong := errors.Is(err, fga.ErrWrongStoreOrModel)
	if !wrong && !errors.Is(err, fga.ErrUnavailable) {
		return err
	}
	b.gate.fail(fga.RetryAfter(err))
	if wrong {
		b.metrics.held.WithLabelValues("wrong_store_or_model").Inc()
		b.log.Error("the engine does not know the pinned store or model; rows wait, no attempt is spent", zap.Error(err))
		return nil
	}
	b.metrics.held.WithLabelValues("unavailable").Inc()
	b.log.Warn("the engine is away; rows wait, no attempt is spent", zap.Error(err))
	if !mayStillLand(err) {
		return nil
	}
	return b.release(ctx, pack, b.settings.Settle)
}

// release gives open rows back, those among the given ones or all (nil), and
// nobody takes them for wait.
func (b *batch) release(ctx context.Context, among []*delivery, wait time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []int64
	for id := range b.open {
		if among == nil || slices.ContainsFunc(among, func(d *delivery) bool { return d.row.ID == id }) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if wait > 0 {
		b.lookAgain(wait)
	}
	for _, id := range ids {
		delete(b.open, id)
	}
	return b.outbox.Release(ctx, b.claim, ids, wait)
}

// bad says whether the engine has answered that it will not take the request.
func bad(err error) bool {
	return errors.Is(err, fga.ErrRefused) || errors.Is(err, fga.ErrConflict)
}

// mayStillLand says whether the engine may still be working at a request that
// failed: it was sent, and the engine itself gave no answer. A later row of the
// same object that overtook it would be undone by it.
func mayStillLand(err error) bool {
	var answered interface{ ResponseStatusCode() int }
	if errors.As(err, &answered) {
		code := answered.ResponseStatusCode()
		return code == http.StatusBadGateway || code == http.StatusGatewayTimeout
	}
	var dial *net.OpError
	return !errors.As(err, &dial) || dial.Op != "dial"
}

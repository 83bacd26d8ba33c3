// Package reconcile fills the ledger's holes: captures that were reported with
// a manifest key and have no archive yet. It reads each manifest at exactly the
// key that was recorded and hands the bytes to the ledger, which admits them by
// the same code as a level report; whether a capture is admitted is never
// decided here.
//
// Many replicas may run: a hole is claimed row by row, a claim ends by itself,
// and admitting twice is a no-op at the ledger.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/objstore"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
)

// maxManifestBytes bounds a manifest; the ledger takes no more either.
const maxManifestBytes = 1 << 20

// Settings of the loop.
type Settings struct {
	// Every is the time between two passes; jitter of a tenth is added.
	Every time.Duration
	// PageSize is how many holes are asked for at a time, at most 1000.
	PageSize int32
	// Concurrency bounds the manifests that are read at once.
	Concurrency int
	// ReadTimeout bounds one manifest's download.
	ReadTimeout time.Duration
	// Backoff is the first wait after a failed try; it doubles up to MaxBackoff.
	Backoff, MaxBackoff time.Duration
}

// claimFor is how long a claim holds: one page at its slowest.
func (s Settings) claimFor() time.Duration {
	total := time.Minute
	for range int(s.PageSize)/s.Concurrency + 1 {
		total += s.ReadTimeout + admitTimeout
	}
	return total
}

// admitTimeout bounds one call to the ledger.
const admitTimeout = 15 * time.Second

// ledger is what the loop asks of the ledger's registry.
type ledger interface {
	ListHoles(ctx context.Context, after *uuid.UUID, pageSize int32) ([]*ledgerv1.Hole, error)
	AdmitManifest(ctx context.Context, task uuid.UUID, manifest []byte) (*ledgerv1.AdmitManifestResponse, error)
}

// store is what the loop remembers between passes.
type store interface {
	Claim(ctx context.Context, holes []uuid.UUID, now, until time.Time, force bool) (map[uuid.UUID]int, error)
	Defer(ctx context.Context, hole uuid.UUID, reason string, counts bool, now, next time.Time) error
	Finish(ctx context.Context, hole uuid.UUID, outcome string, reason *string, now, next time.Time) error
}

// manifests reads a manifest's bytes.
type manifests interface {
	Read(ctx context.Context, bucket, key string, limit int64) ([]byte, error)
}

// Reconciler runs passes over the ledger's holes.
type Reconciler struct {
	ledger    ledger
	store     store
	manifests manifests
	settings  Settings
	metrics   *Metrics
	log       *zap.Logger
	now       func() time.Time
}

// New returns a reconciler.
func New(l ledger, st store, m manifests, settings Settings, metrics *Metrics, log *zap.Logger, now func() time.Time) *Reconciler {
	return &Reconciler{ledger: l, store: st, manifests: m, settings: settings, metrics: metrics, log: log, now: now}
}

// Run makes passes until ctx ends. The first one begins after a random part of
// the interval, so that replicas which start together do not run in step.
func (r *Reconciler) Run(ctx context.Context) error {
	wait := rand.N(r.settings.Every)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		if _, err := r.Pass(ctx, false); err != nil && ctx.Err() == nil {
			r.log.Warn("pass ended early", zap.Error(err))
		}
		wait = r.settings.Every + rand.N(r.settings.Every/10+1)
	}
}

// Counts says what one pass saw and what became of it.
type Counts struct {
	Seen, Admitted, Never, NotYet int64
}

// Pass walks all present holes once. With force, holes that are not due yet
// are tried as well; those that another replica holds are left to it.
func (r *Reconciler) Pass(ctx context.Context, force bool) (Counts, error) {
	var total Counts
	var after *uuid.UUID
	for {
		holes, err := r.ledger.ListHoles(ctx, after, r.settings.PageSize)
		if err != nil {
			return total, fmt.Errorf("asking the ledger for holes: %w", err)
		}
		total.Seen += int64(len(holes))
		if len(holes) > 0 {
			last, err := r.page(ctx, holes, force, &total)
			if err != nil {
				return total, err
			}
			after = &last
		}
		if len(holes) < int(r.settings.PageSize) {
			r.metrics.holes.Set(float64(total.Seen))
			r.metrics.lastPass.Set(float64(r.now().Unix()))
			return total, nil
		}
	}
}

// page works on one page of holes and returns the last task id in it.
func (r *Reconciler) page(ctx context.Context, holes []*ledgerv1.Hole, force bool, total *Counts) (uuid.UUID, error) {
	ids := make([]uuid.UUID, len(holes))
	for i, h := range holes {
		id, err := uuid.Parse(h.GetTaskId())
		if err != nil {
			return uuid.Nil, fmt.Errorf("the ledger listed a hole that is no task id: %w", err)
		}
		ids[i] = id
	}
	now := r.now()
	claimed, err := r.store.Claim(ctx, ids, now, now.Add(r.settings.claimFor()), force)
	if err != nil {
		return uuid.Nil, err
	}
	tries := r.tryAll(ctx, ids, holes, claimed)
	return ids[len(ids)-1], r.record(ctx, tries, total)
}

// try is one hole and what reading and admitting it brought.
type try struct {
	task     uuid.UUID
	attempts int
	reply    *ledgerv1.AdmitManifestResponse
	err      error
}

func (r *Reconciler) tryAll(ctx context.Context, ids []uuid.UUID, holes []*ledgerv1.Hole, claimed map[uuid.UUID]int) []try {
	var mu sync.Mutex
	var tries []try
	var group errgroup.Group
	group.SetLimit(r.settings.Concurrency)
	for i, id := range ids {
		attempts, mine := claimed[id]
		if !mine {
			continue
		}
		group.Go(func() error {
			reply, err := r.tryOne(ctx, id, holes[i])
			mu.Lock()
			defer mu.Unlock()
			tries = append(tries, try{task: id, attempts: attempts, reply: reply, err: err})
			return nil
		})
	}
	_ = group.Wait() // the tries carry their errors
	return tries
}

func (r *Reconciler) tryOne(ctx context.Context, task uuid.UUID, hole *ledgerv1.Hole) (*ledgerv1.AdmitManifestResponse, error) {
	readCtx, cancel := context.WithTimeout(ctx, r.settings.ReadTimeout)
	defer cancel()
	body, err := r.manifests.Read(readCtx, hole.GetBucket(), hole.GetManifestKey(), maxManifestBytes)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, errEmpty
	}
	admitCtx, cancelAdmit := context.WithTimeout(ctx, admitTimeout)
	defer cancelAdmit()
	reply, err := r.ledger.AdmitManifest(admitCtx, task, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLedger, err)
	}
	return reply, nil
}

var (
	errEmpty  = errors.New("the manifest is empty")
	errLedger = errors.New("the ledger did not take the manifest")
)

// record writes down what became of a page's tries. A store that forbids every
// key, or does not answer, says something about our rights or about the store
// and nothing about the captures: then no try is counted against any of them.
func (r *Reconciler) record(ctx context.Context, tries []try, total *Counts) error {
	forbidden := 0
	for _, t := range tries {
		if errors.Is(t.err, objstore.ErrForbidden) {
			forbidden++
		}
	}
	allForbidden := forbidden > 1 && forbidden == len(tries)
	r.metrics.allForbidden.Set(0)
	if allForbidden {
		r.metrics.allForbidden.Set(1)
		r.log.Error("the object store forbids every manifest: check the reconciler's rights on the bucket", zap.Int("manifests", forbidden))
	}
	// Kills and shutdowns may come here; what is not recorded frees itself.
	ctx = context.WithoutCancel(ctx)
	for _, t := range tries {
		if err := r.recordOne(ctx, t, allForbidden, total); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) recordOne(ctx context.Context, t try, allForbidden bool, total *Counts) error {
	now := r.now()
	if t.err != nil {
		total.NotYet++
		r.metrics.tries.WithLabelValues("unreadable").Inc()
		ours := allForbidden || errors.Is(t.err, objstore.ErrUnavailable) || errors.Is(t.err, errLedger) || errors.Is(t.err, context.Canceled)
		return r.store.Defer(ctx, t.task, reason(t.err), !ours, now, now.Add(r.backoff(t.attempts)))
	}
	switch t.reply.GetOutcome() {
	case ledgerv1.AdmitOutcome_ADMIT_OUTCOME_ADMITTED:
		total.Admitted++
		r.metrics.tries.WithLabelValues("admitted").Inc()
		r.log.Info("admitted", zap.Stringer("task_id", t.task), zap.String("archive_id", t.reply.GetArchiveId()))
		return r.store.Finish(ctx, t.task, "admitted", nil, now, now.Add(r.settings.MaxBackoff))
	case ledgerv1.AdmitOutcome_ADMIT_OUTCOME_ALREADY:
		r.metrics.tries.WithLabelValues("already").Inc()
		return r.store.Finish(ctx, t.task, "already", nil, now, now.Add(r.settings.MaxBackoff))
	case ledgerv1.AdmitOutcome_ADMIT_OUTCOME_NEVER:
		total.Never++
		r.metrics.tries.WithLabelValues("never").Inc()
		why := t.reply.GetReason()
		return r.store.Finish(ctx, t.task, "never", &why, now, now.Add(r.settings.MaxBackoff))
	default:
		total.NotYet++
		r.metrics.tries.WithLabelValues("not_yet").Inc()
		return r.store.Defer(ctx, t.task, t.reply.GetReason(), true, now, now.Add(r.backoff(t.attempts)))
	}
}

// backoff doubles with each try, up to MaxBackoff, with jitter of a tenth.
func (r *Reconciler) backoff(attempts int) time.Duration {
	wait := r.settings.Backoff
	for range min(attempts, 30) {
		if wait >= r.settings.MaxBackoff {
			break
		}
		wait *= 2
	}
	wait = min(wait, r.settings.MaxBackoff)
	return wait + rand.N(wait/10+1)
}

// reason is what is kept of an error: its class, not the client library's text.
func reason(err error) string {
	for _, known := range []error{objstore.ErrNotFound, objstore.ErrForbidden, objstore.ErrTooLarge, objstore.ErrUnavailable, errEmpty, errLedger} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "the manifest cannot be read"
}

package sharing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/muniment/muniment/services/ledger/internal/store"
)

const (
	// removeEvery is how often a replica looks for objects to remove; a deletion
	// in this replica wakes it at once.
	removeEvery = 15 * time.Second
	// removeBatch objects are taken at a time, for removeLease: what a replica
	// that dies leaves behind is another's after that. Two that remove one object
	// do no harm.
	removeBatch = 10
	removeLease = 5 * time.Minute
	// objectTimeout bounds one call of the store.
	objectTimeout = 10 * time.Second
	// An object that could not be removed is tried again after firstWait, then
	// after twice as long each time, and at least every maxWait.
	firstWait = 5 * time.Second
	maxWait   = time.Hour
)

type tombstones interface {
	ClaimRemovals(ctx context.Context, limit int32, lease time.Duration) ([]store.Removal, error)
	FinishRemoval(ctx context.Context, archive uuid.UUID) error
	LeaveObject(ctx context.Context, archive uuid.UUID, note string) error
	PostponeRemoval(ctx context.Context, archive uuid.UUID, note string, wait time.Duration) error
	CountRemovals(ctx context.Context) (int64, error)
}

// objects is the store; minio.Client is it.
type objects interface {
	RemoveObject(ctx context.Context, bucket, key string, opts minio.RemoveObjectOptions) error
	StatObject(ctx context.Context, bucket, key string, opts minio.StatObjectOptions) (minio.ObjectInfo, error)
}

// Remover removes the objects of deleted archives: after the deletion's commit,
// which no store can be part of, and for as long as it takes. It runs in every
// replica.
type Remover struct {
	tombstones tombstones
	objects    objects
	outcomes   *prometheus.CounterVec
	waiting    prometheus.Gauge
	log        *zap.Logger
	wake       chan struct{}
}

// NewRemover returns the loop; Run starts it.
func NewRemover(t tombstones, o objects, reg prometheus.Registerer, log *zap.Logger) *Remover {
	r := &Remover{
		tombstones: t, objects: o, log: log, wake: make(chan struct{}, 1),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_ledger_object_removals_total",
			Help: "Objects of deleted archives by what became of them: removed, locked (the bucket keeps them), or postponed.",
		}, []string{"outcome"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muniment_ledger_object_removals_waiting",
			Help: "Objects of deleted archives that are still to be removed.",
		}),
	}
	reg.MustRegister(r.outcomes, r.waiting)
	return r
}

// Wake makes the loop look at once.
func (r *Remover) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Run removes objects until ctx ends. A look that failed is logged and made
// again.
func (r *Remover) Run(ctx context.Context) error {
	tick := time.NewTicker(removeEvery)
	defer tick.Stop()
	for {
		if err := r.Look(ctx); err != nil && ctx.Err() == nil {
			r.log.Error("removing the objects of deleted archives", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-r.wake:
		}
	}
}

// Look removes what is due now.
func (r *Remover) Look(ctx context.Context) error {
	for full := true; full && ctx.Err() == nil; {
		claimed, err := r.tombstones.ClaimRemovals(ctx, removeBatch, removeLease)
		if err != nil {
			return err
		}
		for _, removal := range claimed {
			if err := r.remove(ctx, removal); err != nil {
				return err
			}
		}
		full = len(claimed) == removeBatch
	}
	waiting, err := r.tombstones.CountRemovals(ctx)
	if err != nil {
		return err
	}
	r.waiting.Set(float64(waiting))
	return nil
}

// remove removes one object, or records why it is still there. The error is the
// database's, or the context's.
func (r *Remover) remove(ctx context.Context, removal store.Removal) error {
	log := r.log.With(zap.Stringer("archive_id", removal.ArchiveID), zap.String("bucket", removal.Bucket), zap.String("key", removal.ObjectKey))
	version := versionOf(removal)
	limited, cancel := context.WithTimeout(ctx, objectTimeout)
	err := r.objects.RemoveObject(limited, removal.Bucket, removal.ObjectKey, minio.RemoveObjectOptions{VersionID: version})
	cancel()
	switch {
	case err == nil || minio.ToErrorResponse(err).Code == "NoSuchKey" || minio.ToErrorResponse(err).Code == "NoSuchVersion":
		r.outcomes.WithLabelValues("removed").Inc()
		log.Info("the object of a deleted archive is removed")
		return r.tombstones.FinishRemoval(ctx, removal.ArchiveID)
	case ctx.Err() != nil:
		return ctx.Err() // shutting down: the lease gives it to another
	}
	if refused, ok := errors.AsType[minio.ErrorResponse](err); ok && refused.StatusCode/100 == 4 {
		if lock := r.lock(ctx, removal, version); lock != "" {
			r.outcomes.WithLabelValues("locked").Inc()
			log.Warn("the object of a deleted archive stays: the bucket locks it", zap.String("lock", lock))
			return r.tombstones.LeaveObject(ctx, removal.ArchiveID, lock)
		}
	}
	wait := min(firstWait<<min(removal.Attempts-1, 20), maxWait)
	r.outcomes.WithLabelValues("postponed").Inc()
	log.Warn("the object of a deleted archive is still there", zap.Duration("next_try", wait), zap.Error(err))
	return r.tombstones.PostponeRemoval(ctx, removal.ArchiveID, reasonOf(err), wait)
}

// versionOf names the version that was admitted. Without one, the bucket kept
// none at that time, and "null" is the name that the object has had since: had
// the bucket begun to keep versions, a removal without a version would only hide
// the object behind a marker.
func versionOf(removal store.Removal) string {
	if removal.ObjectVersionID == nil {
		return "null"
	}
	return *removal.ObjectVersionID
}

// lock says by what the bucket keeps an object, or "".
func (r *Remover) lock(ctx context.Context, removal store.Removal, version string) string {
	ctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	info, err := r.objects.StatObject(ctx, removal.Bucket, removal.ObjectKey, minio.StatObjectOptions{VersionID: version})
	if err != nil {
		return ""
	}
	if info.Metadata.Get("X-Amz-Object-Lock-Legal-Hold") == "ON" {
		return "the bucket keeps the object: legal hold"
	}
	if mode := info.Metadata.Get("X-Amz-Object-Lock-Mode"); mode != "" {
		return fmt.Sprintf("the bucket keeps the object until %s: %s", info.Metadata.Get("X-Amz-Object-Lock-Retain-Until-Date"), mode)
	}
	return ""
}

// reasonOf is what a note says of a store that refused, or did not answer.
func reasonOf(err error) string {
	if known, ok := errors.AsType[minio.ErrorResponse](err); ok && known.Code != "" {
		return "the object store refuses: " + known.Code
	}
	return "the object store does not answer"
}

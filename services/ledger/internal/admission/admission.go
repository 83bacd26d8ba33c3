// Package admission decides which captures enter the ledger, and lets them in.
// Only what exists gets in: a manifest that says success, a WACZ in a bucket
// that may be signed, and the object really there, asked for once. Whose the
// capture is, is never taken from a manifest or from whoever calls: it stands
// in the stored submission.
package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/objstore"
	"github.com/muniment/muniment/services/ledger/internal/manifest"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// objects is what admission asks of the object store.
type objects interface {
	Read(ctx context.Context, bucket, key string, limit int64) ([]byte, error)
	Stat(ctx context.Context, bucket, key string) (objstore.Object, error)
}

// registry is what admission asks of the ledger's tables.
type registry interface {
	Admit(ctx context.Context, admissions []store.Admission) ([]store.Admitted, error)
	AdmittedTasks(ctx context.Context, tasks []uuid.UUID) ([]uuid.UUID, error)
	CloseHoles(ctx context.Context, tasks []uuid.UUID) (int64, error)
	OpenSubmissions(ctx context.Context, tasks []uuid.UUID) ([]store.Submission, error)
	Submission(ctx context.Context, task uuid.UUID) (store.Submission, error)
}

// Settings of admission.
type Settings struct {
	// Bucket is where manifests are; AllowedBuckets are those whose objects may
	// be admitted, and signed later.
	Bucket         string
	AllowedBuckets []string
	// Concurrency is how many manifests of a level are read at once, ReadTimeout
	// the limit of each, and LevelTimeout that of all of them: what is not read
	// by then is left to the reconciler.
	Concurrency  int
	ReadTimeout  time.Duration
	LevelTimeout time.Duration
}

// Admitter admits captures.
type Admitter struct {
	registry registry
	objects  objects
	settings Settings
	metrics  *Metrics
	log      *zap.Logger
}

// New returns an Admitter.
func New(r registry, o objects, settings Settings, metrics *Metrics, log *zap.Logger) *Admitter {
	return &Admitter{registry: r, objects: o, settings: settings, metrics: metrics, log: log}
}

// Outcome is what became of one manifest.
type Outcome string

// The outcomes.
const (
	// OutcomeAdmitted: the archive and its outbox row were written.
	OutcomeAdmitted Outcome = "admitted"
	// OutcomeAlready: the archive was there; nothing was written.
	OutcomeAlready Outcome = "already"
	// OutcomeNever: this capture can never be admitted; its hole is closed.
	OutcomeNever Outcome = "never"
	// OutcomeNotYet: the manifest cannot be read, or the object is not there.
	OutcomeNotYet Outcome = "not_yet"
)

// refusal is why a capture is not admitted.
type refusal struct {
	outcome Outcome
	reason  string
}

func (r *refusal) Error() string { return r.reason }

func never(format string, args ...any) error {
	return &refusal{OutcomeNever, fmt.Sprintf(format, args...)}
}

func notYet(format string, args ...any) error {
	return &refusal{OutcomeNotYet, fmt.Sprintf(format, args...)}
}

// judge says whether what a manifest claims may enter, without looking at the
// object.
func (a *Admitter) judge(sub store.Submission, m manifest.Manifest) error {
	switch {
	case m.TaskID != sub.TaskID:
		return never("$.taskId: is not the task that was reported")
	case m.Status != manifest.StatusSuccess:
		return never("$.status: the capture did not succeed (%s)", m.Status)
	case m.WACZ == nil:
		return never("$.artifacts.wacz: no WACZ was taken")
	case !slices.Contains(a.settings.AllowedBuckets, m.WACZ.Bucket):
		return never("$.artifacts.wacz: its bucket is not allowed")
	case sub.SinkPrefix != nil && !strings.HasPrefix(m.WACZ.Key, *sub.SinkPrefix):
		return never("$.artifacts.wacz: its key is not under the crawl's prefix")
	}
	return nil
}

// examine turns a manifest into an admission, or a refusal. An object store that
// does not answer is an error of its own.
func (a *Admitter) examine(ctx context.Context, sub store.Submission, m manifest.Manifest) (store.Admission, error) {
	if err := a.judge(sub, m); err != nil {
		return store.Admission{}, err
	}
	object, err := a.objects.Stat(ctx, m.WACZ.Bucket, m.WACZ.Key)
	switch {
	case errors.Is(err, objstore.ErrNotFound), errors.Is(err, objstore.ErrForbidden):
		return store.Admission{}, notYet("the object is not there, or may not be read")
	case err != nil:
		return store.Admission{}, fmt.Errorf("looking at the object: %w", err)
	case object.Size <= 0:
		return store.Admission{}, notYet("the object is empty")
	}
	admission := store.Admission{
		TaskID: sub.TaskID, CorrelationID: sub.CorrelationID, OrgID: sub.OrgID, SubmittedBy: sub.SubmittedBy,
		Bucket: m.WACZ.Bucket, Key: m.WACZ.Key, SourceURL: m.URL, Labels: m.Labels,
		Complete: m.Complete, Signed: m.Signed, CapturedAt: m.Timestamp,
		ETag: object.ETag, Size: object.Size,
	}
	if object.VersionID != "" {
		admission.VersionID = &object.VersionID
	}
	return admission, nil
}

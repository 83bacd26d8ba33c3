package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/services/ledger/internal/manifest"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// Said is what a manifest that could be read said of its capture.
type Said struct {
	Success bool
	// Message is BrowserHive's own, where the capture failed.
	Message string
}

// seen is what the reading of one manifest brought.
type seen struct {
	said      *Said
	admission store.Admission
	err       error
}

// Level reads the manifests of those of the tasks that still lack an archive,
// and admits what may be admitted. What cannot be read now, or not in time, is
// left to the reconciler: no manifest fails a level or delays it beyond the
// limit. It returns what the manifests said, by task.
func (a *Admitter) Level(ctx context.Context, tasks []uuid.UUID) (map[uuid.UUID]Said, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	open, err := a.registry.OpenSubmissions(ctx, tasks)
	if err != nil {
		return nil, err
	}
	all := a.readAll(ctx, open)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	said := make(map[uuid.UUID]Said, len(open))
	var admissions []store.Admission
	var closed []uuid.UUID
	for i, s := range all {
		if s.said != nil {
			said[open[i].TaskID] = *s.said
		}
		if s.err == nil {
			admissions = append(admissions, s.admission)
			continue
		}
		if a.note(ctx, open[i].TaskID, s.err) == OutcomeNever {
			closed = append(closed, open[i].TaskID)
		}
	}
	if _, err := a.registry.CloseHoles(ctx, closed); err != nil {
		return nil, err
	}
	if err := a.admitAll(ctx, admissions); err != nil {
		return nil, err
	}
	// What another caller admitted meanwhile has said success as well.
	admitted, err := a.registry.AdmittedTasks(ctx, tasks)
	for _, task := range admitted {
		said[task] = Said{Success: true}
	}
	return said, err
}

// readAll reads and examines manifests, several at once, until the level's limit.
func (a *Admitter) readAll(ctx context.Context, open []store.Submission) []seen {
	ctx, cancel := context.WithTimeout(ctx, a.settings.LevelTimeout)
	defer cancel()
	all := make([]seen, len(open))
	var readers errgroup.Group
	readers.SetLimit(a.settings.Concurrency)
	for i, sub := range open {
		readers.Go(func() error {
			all[i] = a.read(ctx, sub)
			return nil
		})
	}
	_ = readers.Wait() // a reader keeps its error with what it read
	return all
}

func (a *Admitter) read(ctx context.Context, sub store.Submission) seen {
	if err := ctx.Err(); err != nil {
		return seen{err: fmt.Errorf("the level's time is over: %w", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, a.settings.ReadTimeout)
	defer cancel()
	data, err := a.objects.Read(ctx, a.settings.Bucket, *sub.ManifestKey, manifest.MaxBytes)
	if err != nil {
		return seen{err: fmt.Errorf("reading the manifest: %w", err)}
	}
	m, err := manifest.Parse(data)
	if err != nil {
		return seen{err: notYet("%v", err)}
	}
	var s seen
	if m.TaskID == sub.TaskID {
		s.said = &Said{Success: m.Status == manifest.StatusSuccess, Message: m.ErrorMessage}
	}
	s.admission, s.err = a.examine(ctx, sub, m)
	return s
}

// note counts and logs a capture that is not admitted. One that can never be
// loses its hole; the others are left to the reconciler.
func (a *Admitter) note(ctx context.Context, task uuid.UUID, reason error) Outcome {
	outcome := OutcomeNotYet
	if refused, ok := errors.AsType[*refusal](reason); ok {
		outcome = refused.outcome
	}
	a.metrics.count("level", outcome)
	telemetry.Log(ctx, a.log).Info("capture not admitted", zap.Stringer("task_id", task), zap.String("outcome", string(outcome)), zap.NamedError("reason", reason))
	return outcome
}

func (a *Admitter) admitAll(ctx context.Context, admissions []store.Admission) error {
	results, err := a.registry.Admit(ctx, admissions)
	if err != nil {
		return err
	}
	for _, r := range results {
		switch {
		case r.Err != nil:
			a.metrics.count("level", OutcomeNotYet)
			telemetry.Log(ctx, a.log).Error("archive could not be written; its hole stays", zap.Stringer("task_id", r.TaskID), zap.Error(r.Err))
		case r.New:
			a.metrics.count("level", OutcomeAdmitted)
		case r.Deleted:
			a.metrics.count("level", OutcomeNever)
			telemetry.Log(ctx, a.log).Info("capture not admitted: its archive was deleted", zap.Stringer("task_id", r.TaskID))
		default:
			a.metrics.count("level", OutcomeAlready)
		}
	}
	return nil
}

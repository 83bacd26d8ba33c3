package admission

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/muniment/muniment/services/ledger/internal/manifest"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// Result is what became of one manifest.
type Result struct {
	Outcome Outcome
	// ArchiveID is set where the archive is there.
	ArchiveID *uuid.UUID
	// Reason says why it is not.
	Reason string
}

// Manifest admits the capture that a manifest describes, as the level report
// does. It returns store.ErrNoSubmission for a task that was never recorded.
func (a *Admitter) Manifest(ctx context.Context, task uuid.UUID, data []byte) (Result, error) {
	result, err := a.manifest(ctx, task, data)
	if err == nil {
		a.metrics.count("registry", result.Outcome)
	}
	return result, err
}

func (a *Admitter) manifest(ctx context.Context, task uuid.UUID, data []byte) (Result, error) {
	sub, err := a.registry.Submission(ctx, task)
	if err != nil {
		return Result{}, err
	}
	m, err := manifest.Parse(data)
	if err != nil {
		return Result{Outcome: OutcomeNotYet, Reason: err.Error()}, nil //nolint:nilerr // told in the result
	}
	admission, err := a.examine(ctx, sub, m)
	if refused, ok := errors.AsType[*refusal](err); ok {
		if refused.outcome == OutcomeNever {
			if _, err := a.registry.CloseHoles(ctx, []uuid.UUID{task}); err != nil {
				return Result{}, err
			}
		}
		return Result{Outcome: refused.outcome, Reason: refused.reason}, nil
	}
	if err != nil {
		return Result{}, err
	}
	admitted, err := a.registry.Admit(ctx, []store.Admission{admission})
	if err != nil {
		return Result{}, err
	}
	if admitted[0].Deleted {
		return Result{Outcome: OutcomeNever, Reason: "the archive was deleted"}, nil
	}
	result := Result{Outcome: OutcomeAlready, ArchiveID: &admitted[0].ArchiveID}
	if admitted[0].New {
		result.Outcome = OutcomeAdmitted
	}
	return result, admitted[0].Err
}

package server

import (
	"context"
	"errors"

	"github.com/google/uuid"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/admission"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

var outcomes = map[admission.Outcome]ledgerv1.AdmitOutcome{
	admission.OutcomeAdmitted: ledgerv1.AdmitOutcome_ADMIT_OUTCOME_ADMITTED,
	admission.OutcomeAlready:  ledgerv1.AdmitOutcome_ADMIT_OUTCOME_ALREADY,
	admission.OutcomeNever:    ledgerv1.AdmitOutcome_ADMIT_OUTCOME_NEVER,
	admission.OutcomeNotYet:   ledgerv1.AdmitOutcome_ADMIT_OUTCOME_NOT_YET,
}

// AdmitManifest admits the capture that a manifest describes.
func (s *Registry) AdmitManifest(ctx context.Context, req *ledgerv1.AdmitManifestRequest) (*ledgerv1.AdmitManifestResponse, error) {
	task, err := uuid.Parse(req.GetTaskId())
	if err != nil {
		return nil, rpcerr.Invalid("taskId", "must be a UUID")
	}
	result, err := s.admitter.Manifest(ctx, task, req.GetManifest())
	if errors.Is(err, store.ErrNoSubmission) {
		return nil, rpcerr.NotFound(err)
	}
	if err != nil {
		return nil, err
	}
	resp := &ledgerv1.AdmitManifestResponse{Outcome: outcomes[result.Outcome]}
	if result.ArchiveID != nil {
		id := result.ArchiveID.String()
		resp.ArchiveId = &id
	}
	if result.Reason != "" {
		resp.Reason = &result.Reason
	}
	return resp, nil
}

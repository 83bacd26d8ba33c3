package server

import (
	"context"
	"time"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
)

type submitters interface {
	SubmitTo(ctx context.Context, subject string, organizations []string, at time.Time) ([]string, error)
}

// getMe says who the caller is and for which organizations he may submit: the
// very question that the crawl routes ask.
func getMe(ctx context.Context, engine submitters, now time.Time) (*ledgerv1.GetMeResponse, error) {
	who, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	submitTo, err := engine.SubmitTo(ctx, who.Subject, who.Organizations, now)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &ledgerv1.GetMeResponse{
		Subject:       who.Subject,
		Organizations: who.Organizations,
		CanSubmit:     len(submitTo) > 0,
		SubmitTo:      submitTo,
	}, nil
}

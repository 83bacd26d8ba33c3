package server

import (
	"context"
	"strconv"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
)

const targetsPerPage = 200

// ListTargets returns an organization's targets, in the order of their ids. A
// page token is the last id of the page before.
func (s *Targets) ListTargets(ctx context.Context, req *ledgerv1.ListTargetsRequest) (*ledgerv1.ListTargetsResponse, error) {
	who, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkOrganization(req.OrgId); err != nil {
		return nil, err
	}
	var after int64
	if req.PageToken != nil {
		if after, err = strconv.ParseInt(req.GetPageToken(), 36, 64); err != nil || after < 1 {
			return nil, rpcerr.Invalid("pageToken", "is not one that was handed out")
		}
	}
	org, err := submitFor(ctx, s.rights, who, req.OrgId, s.now())
	if err != nil {
		return nil, err
	}
	targets, err := s.rows.Targets(ctx, org, after, targetsPerPage+1)
	if err != nil {
		return nil, err
	}
	resp := &ledgerv1.ListTargetsResponse{}
	if len(targets) > targetsPerPage {
		targets = targets[:targetsPerPage]
		token := strconv.FormatInt(targets[targetsPerPage-1].ID, 36)
		resp.NextPageToken = &token
	}
	for _, t := range targets {
		resp.Targets = append(resp.Targets, target(t))
	}
	return resp, nil
}

package server

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	ledgerpb "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	signerpb "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/signer/internal/store"
)

// SignArchive gives out one URL. Lookup and check run side by side and both are
// awaited, so that 'not there' and 'not allowed' take the same time; a
// dependency that does not answer outranks either answer.
func (s *Server) SignArchive(ctx context.Context, req *signerpb.SignArchiveRequest) (*signerpb.SignArchiveResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	var found *ledgerpb.LookupArchiveResponse
	var allowed bool
	var both errgroup.Group
	both.Go(func() (err error) {
		found, err = s.lookup(ctx, req.GetArchiveId())
		return err
	})
	both.Go(func() (err error) {
		allowed, err = s.engine.Check(ctx, s.canView(who, req.GetArchiveId(), s.now()))
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, fmt.Errorf("deciding: %w", err)
	}
	if why := reason(found, allowed); why != "" {
		s.refuse(ctx, who, req.GetArchiveId(), why)
		return nil, rpcerr.NotFound(nil)
	}
	url, row, err := s.sign(found)
	if err != nil {
		return nil, err
	}
	if err := s.commit(ctx, who, []store.Issued{row}); err != nil {
		return nil, err
	}
	return &signerpb.SignArchiveResponse{Url: url.Text, ExpiresIn: seconds(url)}, nil
}

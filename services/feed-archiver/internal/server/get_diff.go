package server

import (
	"context"
	"time"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
)

// GetDiff compares what a feed held at two moments, over all its requests: what
// moved from one request to another neither appeared nor disappeared. Only the
// rows' ids are compared, so that a large feed may be asked for a small change.
func (s *Server) GetDiff(ctx context.Context, req *feedarchiverv1.GetDiffRequest) (*feedarchiverv1.GetDiffResponse, error) {
	if err := named("source", req.GetSource()); err != nil {
		return nil, err
	}
	from, to := req.GetFrom().AsTime(), req.GetTo().AsTime()
	if to.Before(from) {
		return nil, rpcerr.Invalid("to", "must not lie before from")
	}
	before, err := s.heldAt(ctx, req.GetSource(), from)
	if err != nil {
		return nil, err
	}
	after, err := s.heldAt(ctx, req.GetSource(), to)
	if err != nil {
		return nil, err
	}
	appeared, disappeared := without(after, before), without(before, after)
	const what = "what changed between the two moments"
	if len(appeared)+len(disappeared) > maxReplyItems {
		return nil, rpcerr.TooLarge(what, maxReply)
	}
	reply := &feedarchiverv1.GetDiffResponse{}
	if reply.Appeared, err = s.heldRows(ctx, appeared); err != nil {
		return nil, err
	}
	if reply.Disappeared, err = s.heldRows(ctx, disappeared); err != nil {
		return nil, err
	}
	var size replySize
	if err := size.add(reply, what); err != nil {
		return nil, err
	}
	return reply, nil
}

// heldAt returns the rows of everything that the source's requests held.
func (s *Server) heldAt(ctx context.Context, source string, at time.Time) (map[int64]struct{}, error) {
	polls, err := s.store.LastPolls(ctx, source, at, nil)
	if err != nil {
		return nil, err
	}
	held := make(map[int64]struct{})
	for _, p := range polls {
		ids, err := s.store.HeldIDs(ctx, p.ID)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			held[id] = struct{}{}
		}
	}
	return held, nil
}

// without returns what stands in one set and not in the other.
func without(set, other map[int64]struct{}) []int64 {
	var rest []int64
	for id := range set {
		if _, both := other[id]; !both {
			rest = append(rest, id)
		}
	}
	return rest
}

func (s *Server) heldRows(ctx context.Context, ids []int64) ([]*feedarchiverv1.HeldItem, error) {
	items, err := s.store.Items(ctx, ids)
	if err != nil {
		return nil, err
	}
	return heldItems(items), nil
}

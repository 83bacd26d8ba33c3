package server

import (
	"cmp"
	"context"
	"slices"
	"time"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// GetDiff compares what a feed held at two moments, over all its requests: what
// moved from one request to another neither appeared nor disappeared.
func (s *Server) GetDiff(ctx context.Context, req *feedarchiverv1.GetDiffRequest) (*feedarchiverv1.GetDiffResponse, error) {
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
	return &feedarchiverv1.GetDiffResponse{
		Appeared:    heldItems(without(after, before)),
		Disappeared: heldItems(without(before, after)),
	}, nil
}

// heldAt returns everything that the source's requests held, by row.
func (s *Server) heldAt(ctx context.Context, source string, at time.Time) (map[int64]store.HeldItem, error) {
	polls, err := s.store.LastPolls(ctx, source, at, nil)
	if err != nil {
		return nil, err
	}
	held := make(map[int64]store.HeldItem)
	for _, p := range polls {
		items, err := s.store.HeldBy(ctx, p.ID, false)
		if err != nil {
			return nil, err
		}
		for _, i := range items {
			held[i.ID] = i
		}
	}
	return held, nil
}

// without returns what stands in one set and not in the other, in the order in
// which it was received.
func without(set, other map[int64]store.HeldItem) []store.HeldItem {
	var rest []store.HeldItem
	for id, item := range set {
		if _, both := other[id]; !both {
			rest = append(rest, item)
		}
	}
	slices.SortFunc(rest, func(a, b store.HeldItem) int { return cmp.Compare(a.ID, b.ID) })
	return rest
}

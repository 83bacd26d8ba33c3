package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// GetContinuity says how steadily each source was read in a month.
func (s *Server) GetContinuity(ctx context.Context, req *feedarchiverv1.GetContinuityRequest) (*feedarchiverv1.GetContinuityResponse, error) {
	month, err := time.Parse("2006-01", req.GetMonth())
	if err != nil {
		return nil, rpcerr.Invalid("month", "is not a month of the calendar")
	}
	sources, gaps, err := s.store.Continuity(ctx, month, month.AddDate(0, 1, 0))
	if err != nil {
		return nil, err
	}
	bySource := make(map[string][]*feedarchiverv1.Gap)
	for _, g := range gaps {
		bySource[g.Source] = append(bySource[g.Source], &feedarchiverv1.Gap{
			StartedAt: timestamppb.New(g.StartedAt), Seconds: g.EndedAt.Sub(g.StartedAt).Seconds(), Cause: cause(g),
		})
	}
	reply := &feedarchiverv1.GetContinuityResponse{Month: req.GetMonth(), Sources: make([]*feedarchiverv1.SourceContinuity, 0, len(sources))}
	for _, c := range sources {
		source := &feedarchiverv1.SourceContinuity{
			Source: c.Source, Reads: c.Reads, IntervalsOverThreeTimesUsual: c.OverThreeTimesUsual, Status: c.Status, Gaps: bySource[c.Source],
		}
		if c.Reads > 1 {
			source.UsualIntervalSeconds, source.P95IntervalSeconds = &c.UsualSeconds, &c.P95Seconds
			source.LongestIntervalSeconds, source.LongestIntervalStartedAt = &c.LongestSeconds, timestamppb.New(c.LongestStartedAt)
		}
		reply.Sources = append(reply.Sources, source)
	}
	return reply, nil
}

// cause says what is known of a gap: reads failed in it, or no archiver was
// alive in most of its minutes, or neither.
func cause(g store.Gap) string {
	minutes := int64(g.EndedAt.Sub(g.StartedAt) / time.Minute)
	switch {
	case g.FailedReads > 0:
		return "feed_failed"
	case g.MinutesAlive*2 < minutes:
		return "archiver_not_running"
	}
	return "unknown"
}

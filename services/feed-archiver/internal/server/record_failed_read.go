package server

import (
	"context"
	"errors"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// RecordFailedRead takes a read that held nothing to keep.
func (s *Server) RecordFailedRead(ctx context.Context, req *feedarchiverv1.RecordFailedReadRequest) (*feedarchiverv1.RecordFailedReadResponse, error) {
	if err := s.mayPush(ctx, req.GetSource()); err != nil {
		return nil, err
	}
	if err := errors.Join(named("request", req.GetRequest()), timed("fetchedAt", req.GetFetchedAt())); err != nil {
		return nil, err
	}
	err := s.writer.RecordFailure(ctx, archive.Failure{
		Source: req.GetSource(), Request: req.GetRequest(), FetchedAt: req.GetFetchedAt().AsTime(),
		HTTPStatus: int(req.GetHttpStatus()), Reason: req.GetReason(),
	})
	if err != nil {
		return nil, refusedRead(err)
	}
	return &feedarchiverv1.RecordFailedReadResponse{}, nil
}

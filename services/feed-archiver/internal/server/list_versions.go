package server

import (
	"context"
	"errors"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
)

// ListVersions returns every version of a product, oldest first.
func (s *Server) ListVersions(ctx context.Context, req *feedarchiverv1.ListVersionsRequest) (*feedarchiverv1.ListVersionsResponse, error) {
	if err := errors.Join(named("source", req.GetSource()), named("productId", req.GetProductId())); err != nil {
		return nil, err
	}
	var after int64
	if req.PageToken != nil {
		parts, err := parsePageToken(req.GetPageToken(), 1)
		if err != nil {
			return nil, err
		}
		after = parts[0]
	}
	products, more, err := s.store.Versions(ctx, req.GetSource(), req.GetProductId(), after, pageSize(req.PageSize))
	if err != nil {
		return nil, err
	}
	reply := &feedarchiverv1.ListVersionsResponse{Products: refs(products)}
	if more {
		token := pageToken(products[len(products)-1].ID)
		reply.NextPageToken = &token
	}
	return reply, nil
}

package server

import (
	"context"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	outboxrelayv1 "github.com/muniment/muniment/pkg/pb/muniment/outboxrelay/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
)

const defaultPageSize = 50

// ListDead lists rows that were set aside. A page token is the last id seen.
func (s *Server) ListDead(ctx context.Context, req *outboxrelayv1.ListDeadRequest) (*outboxrelayv1.ListDeadResponse, error) {
	size := defaultPageSize
	if req.PageSize != nil {
		size = int(req.GetPageSize())
	}
	var after int64
	if req.PageToken != nil {
		var err error
		if after, err = strconv.ParseInt(req.GetPageToken(), 10, 64); err != nil || after < 0 {
			return nil, rpcerr.Invalid("pageToken", "is not a page token")
		}
	}
	// One more than the page says whether there is another.
	dead, err := s.outbox.ListDead(ctx, after, size+1)
	if err != nil {
		return nil, err
	}
	reply := &outboxrelayv1.ListDeadResponse{}
	if len(dead) > size {
		dead = dead[:size]
		token := strconv.FormatInt(dead[size-1].ID, 10)
		reply.NextPageToken = &token
	}
	for _, d := range dead {
		reply.Rows = append(reply.Rows, &outboxrelayv1.DeadRow{
			Id: d.ID, Payload: string(d.Payload), Keys: d.Keys,
			CreatedAt: timestamppb.New(d.CreatedAt), DeadAt: timestamppb.New(d.DeadAt),
			Attempts: int32(d.Attempts), Reason: d.Reason,
		})
	}
	return reply, nil
}

package server

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// notSealed is the state of every product as long as no seal holds it.
const notSealed = "not_sealed"

// GetProduct returns the product of a hash, the first received.
func (s *Server) GetProduct(ctx context.Context, req *feedarchiverv1.GetProductRequest) (*feedarchiverv1.Product, error) {
	products, err := s.store.Bodies(ctx, req.GetHash())
	if err != nil {
		return nil, missing(err)
	}
	first := products[0]
	reply := &feedarchiverv1.Product{
		Hash: first.Hash, Source: first.Source, Request: first.Request, ProductId: first.ProductID, ItemKey: first.ItemKey,
		IssuedAt: stamp(first.IssuedAt), ReceivedAt: timestamppb.New(first.ReceivedAt),
		ByteLength: first.ByteLength, Encoding: first.Encoding,
		Also:   refs(products[1:]),
		Sealed: &feedarchiverv1.Sealed{State: notSealed},
	}
	if s.rights.MayRedistribute(first.Source) {
		if err := fits(first.ByteLength); err != nil {
			return nil, err
		}
		text, _, err := s.store.Text(ctx, req.GetHash())
		if err != nil {
			return nil, missing(err)
		}
		reply.Body = &text
	}
	return reply, nil
}

func refs(products []store.Product) []*feedarchiverv1.ProductRef {
	all := make([]*feedarchiverv1.ProductRef, 0, len(products))
	for _, p := range products {
		all = append(all, &feedarchiverv1.ProductRef{
			Hash: p.Hash, Source: p.Source, Request: p.Request, ProductId: p.ProductID, ItemKey: p.ItemKey,
			IssuedAt: stamp(p.IssuedAt), ReceivedAt: timestamppb.New(p.ReceivedAt),
			ByteLength: p.ByteLength, Encoding: p.Encoding,
		})
	}
	return all
}

func missing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return rpcerr.NotFound(err)
	}
	return err
}

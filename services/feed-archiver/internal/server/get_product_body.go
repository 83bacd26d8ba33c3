package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
)

// GetProductBody returns exactly the stored text, or the bytes it stands for.
func (s *Server) GetProductBody(ctx context.Context, req *feedarchiverv1.GetProductBodyRequest) (*feedarchiverv1.ProductBody, error) {
	products, err := s.store.Bodies(ctx, req.GetHash())
	if err != nil {
		return nil, missing(err)
	}
	if !s.rights.MayRedistribute(products[0].Source) {
		return nil, rpcerr.NotFound(errors.New("the rights register forbids redistribution"))
	}
	size := products[0].ByteLength
	if products[0].Encoding == "base64" && req.GetDecode() {
		size = size / 4 * 3
	}
	if err := fits(size); err != nil {
		return nil, err
	}
	text, encoding, err := s.store.Text(ctx, req.GetHash())
	if err != nil {
		return nil, missing(err)
	}
	reply := &feedarchiverv1.ProductBody{Hash: req.GetHash(), ContentType: "text/plain; charset=utf-8", Body: []byte(text)}
	switch {
	case encoding == "json":
		reply.ContentType = "application/json"
	case encoding == "base64" && req.GetDecode():
		reply.ContentType = "application/octet-stream"
		if reply.Body, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, rpcerr.Internal(fmt.Errorf("decoding a stored text: %w", err))
		}
	}
	return reply, nil
}

package server

import (
	"crypto/sha256"

	"google.golang.org/protobuf/proto"

	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/rpcerr"
)

// maxReply bounds what one reply carries, with room for what stands beside it.
// gRPC refuses a longer message in words of its own, which mean nothing to
// whoever asked.
const maxReply = grpcx.MaxMessageBytes - 256<<10

// maxReplyItems is how many items no reply carries, as each has its hash in hex.
const maxReplyItems = maxReply / (2 * sha256.Size)

// replySize adds up the parts of a reply.
type replySize int

func (s *replySize) add(part proto.Message, what string) error {
	if *s += replySize(proto.Size(part)); *s > maxReply {
		return rpcerr.TooLarge(what, maxReply)
	}
	return nil
}

// fits says before a body is read whether it can be handed out.
func fits(size int64) error {
	if size > maxReply {
		return rpcerr.TooLarge("the product's body", maxReply)
	}
	return nil
}

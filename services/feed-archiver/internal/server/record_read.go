package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/feeds"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// RecordRead takes one complete read. Nothing is written before the stream's
// end, so one that is cut off leaves nothing.
func (s *Server) RecordRead(stream grpc.ClientStreamingServer[feedarchiverv1.RecordReadRequest, feedarchiverv1.RecordReadResponse]) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return received(err)
	}
	header := first.GetHeader()
	if header == nil {
		return rpcerr.Invalid("header", "comes first")
	}
	if err := s.mayPush(ctx, header.GetSource()); err != nil {
		return err
	}
	if err := errors.Join(named("header.request", header.GetRequest()), timed("header.fetchedAt", header.GetFetchedAt())); err != nil {
		return err
	}
	read := fromHeader(header)
	if read.Items, err = s.items(stream, header); err != nil {
		return err
	}
	recorded, err := s.writer.Record(ctx, read)
	if err != nil {
		return refusedRead(err)
	}
	reply := &feedarchiverv1.RecordReadResponse{ItemsNew: recorded.New}
	if !read.NotModified {
		reply.ItemsSeen = &recorded.Seen
	}
	return stream.SendAndClose(reply)
}

func (s *Server) mayPush(ctx context.Context, source string) error {
	if !s.granted(ctx, source) {
		return status.Errorf(codes.PermissionDenied, "this certificate may not write source %q", source)
	}
	return nil
}

// fromHeader makes a read without its items. What the source's description
// says must be removed is removed whatever the pusher says.
func fromHeader(h *feedarchiverv1.ReadHeader) archive.Read {
	read := archive.Read{
		Source: h.GetSource(), Request: h.GetRequest(), FetchedAt: h.GetFetchedAt().AsTime(),
		HTTPStatus: int(h.GetHttpStatus()), NotModified: h.GetNotModified(),
		Headers:       archive.Headers{Date: h.GetDate(), Age: h.GetAge(), LastModified: h.GetLastModified()},
		RemovedFields: slices.Clone(h.GetRemovedFields()),
	}
	if source, ok := feeds.Find(h.GetSource()); ok {
		read.RemovedFields = append(read.RemovedFields, source.Removed...)
	}
	return read
}

// items takes the stream's items until its end, as many as the header says.
func (s *Server) items(stream grpc.ClientStreamingServer[feedarchiverv1.RecordReadRequest, feedarchiverv1.RecordReadResponse], header *feedarchiverv1.ReadHeader) ([]archive.Item, error) {
	var items []archive.Item
	var size int64
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, received(err)
		}
		if msg.GetHeader() != nil {
			return nil, rpcerr.Invalid("header", "comes once")
		}
		for _, i := range msg.GetItems().GetItems() {
			if err := timed("items.issuedAt", i.GetIssuedAt()); err != nil {
				return nil, err
			}
			size += int64(len(i.GetBody()))
			items = append(items, fromItem(i))
		}
		if size > s.settings.MaxPushBytes {
			return nil, rpcerr.TooLarge("the read", s.settings.MaxPushBytes)
		}
		if int64(len(items)) > header.GetItemCount() {
			break
		}
	}
	if int64(len(items)) != header.GetItemCount() {
		return nil, rpcerr.Invalid("header.itemCount", fmt.Sprintf("says %d, and other than that many items came", header.GetItemCount()))
	}
	return items, nil
}

func fromItem(i *feedarchiverv1.ReadItem) archive.Item {
	item := archive.Item{ProductID: i.GetProductId(), ItemKey: i.GetItemKey(), Body: i.GetBody()}
	switch i.GetKind() {
	case feedarchiverv1.ItemKind_ITEM_KIND_JSON:
		item.Kind = archive.JSON
	case feedarchiverv1.ItemKind_ITEM_KIND_TEXT:
		item.Kind = archive.Text
	default:
		item.Kind = archive.Binary
	}
	if i.GetIssuedAt() != nil {
		t := i.GetIssuedAt().AsTime()
		item.IssuedAt = &t
	}
	return item
}

// received tells a stream that was cut off from a message that is wrong.
func received(err error) error {
	if errors.Is(err, io.EOF) {
		return rpcerr.Invalid("header", "is missing")
	}
	return err
}

// refusedRead says why the writer did not store a read.
func refusedRead(err error) error {
	switch {
	case errors.Is(err, store.ErrFetchedAt):
		return rpcerr.Invalid("header.fetchedAt", "must be of this moment: neither in the future nor long past")
	case errors.Is(err, archive.ErrRights):
		return rpcerr.FailedPrecondition(archive.ErrRights.Error(), err)
	case errors.Is(err, archive.ErrItem), errors.Is(err, archive.ErrRead):
		return rpcerr.FailedPrecondition("the read holds what cannot be kept; it stands among the failed reads", err)
	}
	return err
}

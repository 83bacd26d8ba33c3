// Package feedclient hands what a system read of a feed to the feed archiver.
//
// Its calls never fail and never delay their caller beyond a set bound: the
// archive is a witness of the work, not a part of it. What could not be handed
// over is logged under AS_ISSUED_ARCHIVE and counted. Call it after parsing, with
// everything that the body held, before any filter; a read of which only half
// was understood is not handed over at all.
package feedclient

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/telemetry"
)

// LogName is the one name under which everything is logged that was not kept.
const LogName = "AS_ISSUED_ARCHIVE"

// ErrDisabledUnderTest is what is logged in a test process that did not opt in.
var ErrDisabledUnderTest = errors.New("archive disabled under test")

// Kind says what an item's bytes are.
type Kind int

// The kinds of items.
const (
	JSON   Kind = iota + 1 // one JSON value, as received
	Text                   // UTF-8 text
	Binary                 // bytes
)

// Item is one product, as received.
type Item struct {
	// ProductID is what the publisher calls it; ItemKey tells apart the items of
	// one body that share a product id, and is empty otherwise.
	ProductID, ItemKey string
	// IssuedAt is what the product itself says, or nil: never guessed.
	IssuedAt *time.Time
	Kind     Kind
	Body     []byte
}

// Read is one complete read of one request of a source.
type Read struct {
	// Source must be granted to this system. Request is its own name for what
	// was asked: short, stable, without keys.
	Source, Request string
	FetchedAt       time.Time
	HTTPStatus      int
	// NotModified says that the server answered 304: there are no items.
	NotModified bool
	// RemovedFields are members that are taken out of every JSON item before it
	// is stored: dotted paths, or "**.name" for every depth.
	RemovedFields []string
	// Date, Age and LastModified are the answer's headers, as received.
	Date, Age, LastModified string
	Items                   []Item
}

// Failure is a read that held nothing to keep.
type Failure struct {
	Source, Request string
	FetchedAt       time.Time
	HTTPStatus      int // 0 where no answer came
	// Reason is one line without keys.
	Reason string
}

// Settings of a client.
type Settings struct {
	// Bound is the longest that a call takes (default 5 s).
	Bound time.Duration
	// InTests lets a test process hand over; only a test with an archiver of its
	// own may say so.
	InTests bool
}

// Client hands reads over. It is safe for concurrent use.
type Client struct {
	archiver feedarchiverv1.RecordServiceClient
	settings Settings
	failures *prometheus.CounterVec
	log      *zap.Logger
}

// New makes a client over a connection to the feed archiver (see grpcx.Dial).
func New(conn grpc.ClientConnInterface, settings Settings, metrics prometheus.Registerer, log *zap.Logger) *Client {
	if settings.Bound <= 0 {
		settings.Bound = 5 * time.Second
	}
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muniment_feed_push_failures_total",
		Help: "Reads that could not be handed to the feed archiver (logged as " + LogName + ").",
	}, []string{"source"})
	metrics.MustRegister(failures)
	return &Client{archiver: feedarchiverv1.NewRecordServiceClient(conn), settings: settings, failures: failures, log: log}
}

// Record hands a read over and returns once it is stored, or the bound is
// reached, or it is known that it will not be.
func (c *Client) Record(ctx context.Context, r Read) {
	c.bounded(ctx, r.Source, r.Request, func(ctx context.Context) error { return c.record(ctx, r) })
}

// RecordFailure hands over that a read failed.
func (c *Client) RecordFailure(ctx context.Context, f Failure) {
	c.bounded(ctx, f.Source, f.Request, func(ctx context.Context) error {
		req := &feedarchiverv1.RecordFailedReadRequest{Source: f.Source, Request: f.Request, FetchedAt: timestamppb.New(f.FetchedAt), Reason: f.Reason}
		if f.HTTPStatus != 0 {
			status := int32(f.HTTPStatus)
			req.HttpStatus = &status
		}
		_, err := c.archiver.RecordFailedRead(ctx, req)
		return err
	})
}

// bounded runs a call within the bound, whatever the caller's context and
// whatever happens inside.
func (c *Client) bounded(ctx context.Context, source, request string, call func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.settings.Bound)
	defer cancel()
	err := guarded(ctx, func(ctx context.Context) error {
		if testing.Testing() && !c.settings.InTests {
			return ErrDisabledUnderTest
		}
		return call(ctx)
	})
	if err == nil {
		return
	}
	c.failures.WithLabelValues(source).Inc()
	telemetry.Log(ctx, c.log).Error(LogName, zap.String("source", source), zap.String("request", request), zap.Error(err))
}

func guarded(ctx context.Context, call func(context.Context) error) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return call(ctx)
}

// messageBytes is about how much one message of the stream carries.
const messageBytes = 1 << 20

func (c *Client) record(ctx context.Context, r Read) error {
	// Ending the context aborts a stream that was not closed: nothing is stored.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.archiver.RecordRead(ctx)
	if err != nil {
		return fmt.Errorf("opening the stream: %w", err)
	}
	if err := stream.Send(&feedarchiverv1.RecordReadRequest{Part: &feedarchiverv1.RecordReadRequest_Header{Header: header(r)}}); err != nil {
		return refusal(stream, err)
	}
	var batch []*feedarchiverv1.ReadItem
	size := 0
	for i, it := range r.Items {
		converted, err := item(it)
		if err != nil {
			return err
		}
		batch, size = append(batch, converted), size+len(it.Body)
		if size < messageBytes && i < len(r.Items)-1 {
			continue
		}
		part := &feedarchiverv1.RecordReadRequest_Items{Items: &feedarchiverv1.ReadItems{Items: batch}}
		if err := stream.Send(&feedarchiverv1.RecordReadRequest{Part: part}); err != nil {
			return refusal(stream, err)
		}
		batch, size = nil, 0
	}
	_, err = stream.CloseAndRecv()
	return err
}

// refusal returns why the archiver ended the stream; Send only says that it did.
func refusal(stream grpc.ClientStreamingClient[feedarchiverv1.RecordReadRequest, feedarchiverv1.RecordReadResponse], sent error) error {
	if _, err := stream.CloseAndRecv(); err != nil {
		return err
	}
	return sent
}

func header(r Read) *feedarchiverv1.ReadHeader {
	return &feedarchiverv1.ReadHeader{
		Source: r.Source, Request: r.Request, FetchedAt: timestamppb.New(r.FetchedAt), HttpStatus: int32(r.HTTPStatus),
		NotModified: r.NotModified, ItemCount: int64(len(r.Items)), RemovedFields: r.RemovedFields,
		Date: optional(r.Date), Age: optional(r.Age), LastModified: optional(r.LastModified),
	}
}

func item(i Item) (*feedarchiverv1.ReadItem, error) {
	kinds := map[Kind]feedarchiverv1.ItemKind{
		JSON: feedarchiverv1.ItemKind_ITEM_KIND_JSON, Text: feedarchiverv1.ItemKind_ITEM_KIND_TEXT, Binary: feedarchiverv1.ItemKind_ITEM_KIND_BINARY,
	}
	kind, ok := kinds[i.Kind]
	if !ok {
		return nil, fmt.Errorf("item %q has no kind", i.ProductID)
	}
	converted := &feedarchiverv1.ReadItem{ProductId: i.ProductID, ItemKey: optional(i.ItemKey), Kind: kind, Body: i.Body}
	if i.IssuedAt != nil {
		converted.IssuedAt = timestamppb.New(*i.IssuedAt)
	}
	return converted, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

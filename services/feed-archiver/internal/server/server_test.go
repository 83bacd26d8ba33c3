package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/muniment/muniment/pkg/feedclient"
	"github.com/muniment/muniment/pkg/grpcx"
	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/feeds"
	"github.com/muniment/muniment/services/feed-archiver/internal/fetch"
	"github.com/muniment/muniment/services/feed-archiver/internal/poll"
	"github.com/muniment/muniment/services/feed-archiver/internal/rights"
	"github.com/muniment/muniment/services/feed-archiver/internal/server"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// bundle is an archiver's server, with the real certificates and database.
type bundle struct {
	address   string
	certs     testkit.Certs
	superuser *pgxpool.Pool
}

// setup grants the reconciler's certificate, which here plays a pusher, two
// sources: one that the register knows and one that it does not.
func setup(t *testing.T, register rights.Register) bundle {
	t.Helper()
	db := testkit.Postgres(t)
	b := bundle{certs: testkit.Certificates(t), superuser: db.Pool(t, "superuser"), address: testkit.FreeAddress(t)}
	rows := store.New(db.Pool(t, "feed"))
	registry := prometheus.NewRegistry()
	writer := archive.New(rows, register, archive.NewMetrics(registry), zap.NewNop(), archive.InTests())
	feedSettings := &feeds.Settings{ReadTimeout: time.Second}
	client, err := fetch.New(fetch.Settings{Contact: "test@example.org", RequestTimeout: time.Second}, "test", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	poller := poll.New(rows, writer, feeds.NewReader(client, feedSettings, time.Now), feedSettings,
		poll.Settings{Sources: []string{"nws_alerts"}, ClaimLease: time.Second, LookEvery: time.Second}, registry, zap.NewNop(), time.Now)
	handlers := server.New(poller, writer, rows, register, server.Settings{
		Pushers:      server.Grants{"reconciler": {"nws_alerts", "usgs_stn_hwms", "unregistered"}},
		MaxPushBytes: 1 << 20,
	})
	srv, err := grpcx.NewServer(grpcx.ServerSettings{
		Address: b.address, TLS: b.certs.Files("feed-archiver"), Callers: handlers.Callers(),
		MaxConnectionAge: time.Minute, ShutdownTimeout: 5 * time.Second,
	}, registry, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	feedarchiverv1.RegisterFeedServiceServer(srv, handlers)
	feedarchiverv1.RegisterRecordServiceServer(srv, handlers)
	feedarchiverv1.RegisterAsIssuedServiceServer(srv, handlers)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return b
}

func (b bundle) dial(t *testing.T, as string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpcx.Dial(b.address, "feed-archiver", b.certs.Files(as))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (b bundle) count(t *testing.T, query string) int {
	t.Helper()
	var n int
	if err := b.superuser.QueryRow(t.Context(), "SELECT count(*) FROM feed."+query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func checkedIn(t *testing.T) rights.Register {
	t.Helper()
	register, err := rights.CheckedIn()
	if err != nil {
		t.Fatal(err)
	}
	return register
}

func header(source string, items int) *feedarchiverv1.ReadHeader {
	return &feedarchiverv1.ReadHeader{Source: source, Request: "pushed", FetchedAt: timestamppb.Now(), HttpStatus: 200, ItemCount: int64(items)}
}

func item(id, body string) *feedarchiverv1.ReadItem {
	return &feedarchiverv1.ReadItem{ProductId: id, Kind: feedarchiverv1.ItemKind_ITEM_KIND_JSON, Body: []byte(body)}
}

// push sends a header and items as given, and closes.
func push(t *testing.T, conn *grpc.ClientConn, h *feedarchiverv1.ReadHeader, items ...*feedarchiverv1.ReadItem) (*feedarchiverv1.RecordReadResponse, error) {
	t.Helper()
	stream, err := feedarchiverv1.NewRecordServiceClient(conn).RecordRead(t.Context(), grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&feedarchiverv1.RecordReadRequest{Part: &feedarchiverv1.RecordReadRequest_Header{Header: h}})
	for _, i := range items {
		_ = stream.Send(&feedarchiverv1.RecordReadRequest{Part: &feedarchiverv1.RecordReadRequest_Items{Items: &feedarchiverv1.ReadItems{Items: []*feedarchiverv1.ReadItem{i}}}})
	}
	return stream.CloseAndRecv()
}

func TestPush(t *testing.T) {
	t.Parallel()
	b := setup(t, checkedIn(t))
	conn := b.dial(t, "reconciler")
	reply, err := push(t, conn, header("nws_alerts", 2), item("a", `{"v":1}`), item("b", `{"v":2}`))
	if err != nil || reply.GetItemsSeen() != 2 || reply.GetItemsNew() != 2 {
		t.Fatalf("%v, %v", reply, err)
	}
	reply, err = push(t, conn, header("nws_alerts", 2), item("a", `{"v":1.0}`), item("b", `{"v":3}`))
	if err != nil || reply.GetItemsSeen() != 2 || reply.GetItemsNew() != 1 {
		t.Fatalf("%v, %v", reply, err)
	}
	unchanged := header("nws_alerts", 0)
	unchanged.HttpStatus, unchanged.NotModified = 304, true
	if reply, err = push(t, conn, unchanged); err != nil || reply.ItemsSeen != nil {
		t.Fatalf("%v, %v", reply, err)
	}
	if b.count(t, "as_issued_polls WHERE request = 'pushed'") != 3 || b.count(t, "as_issued_products") != 3 {
		t.Error("not three polls and three products")
	}
}

// Everything that a pusher says of a read stands in the rows.
func TestWhatIsPushedIsInTheRows(t *testing.T) {
	t.Parallel()
	b := setup(t, checkedIn(t))
	head := header("nws_alerts", 3)
	date, age, modified := "Mon, 30 Nov 2026 20:00:00 GMT", "7", "Mon, 30 Nov 2026 19:00:00 GMT"
	head.Date, head.Age, head.LastModified = &date, &age, &modified
	head.RemovedFields = []string{"stamp"}
	key := "k"
	keyed, text, binary := item("a", `{"stamp":1,"v":1}`), item("t", "a line"), item("z", "bytes")
	keyed.ItemKey, keyed.IssuedAt = &key, timestamppb.New(time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC))
	text.Kind, binary.Kind = feedarchiverv1.ItemKind_ITEM_KIND_TEXT, feedarchiverv1.ItemKind_ITEM_KIND_BINARY
	if _, err := push(t, b.dial(t, "reconciler"), head, keyed, text, binary); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		`as_issued_polls WHERE http_date = 'Mon, 30 Nov 2026 20:00:00 GMT' AND http_age = '7' AND http_last_modified = 'Mon, 30 Nov 2026 19:00:00 GMT' AND items_seen = 3`,
		`as_issued_products WHERE product_id = 'a' AND item_key = 'k' AND issued_at = '2026-11-30T12:00:00.123456Z' AND encoding = 'json' AND content_text = '{"_archive_removed_fields":["stamp"],"v":1}'`,
		`as_issued_products WHERE product_id = 't' AND item_key IS NULL AND issued_at IS NULL AND encoding = 'text' AND content_text = 'a line'`,
		`as_issued_products WHERE product_id = 'z' AND encoding = 'base64' AND content_text = 'Ynl0ZXM='`,
	} {
		if n := b.count(t, row); n != 1 {
			t.Errorf("%d rows of %s, want 1", n, row)
		}
	}
}

// The package for pushers, against the real server.
func TestPushByTheClientPackage(t *testing.T) {
	t.Parallel()
	b := setup(t, checkedIn(t))
	client := feedclient.New(b.dial(t, "reconciler"), feedclient.Settings{InTests: true, Bound: 20 * time.Second}, prometheus.NewRegistry(), zap.NewNop())
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		client.Record(t.Context(), feedclient.Read{
			Source: "nws_alerts", Request: "mine", FetchedAt: time.Now(), HTTPStatus: 200,
			Items: []feedclient.Item{{ProductID: "a", Kind: feedclient.JSON, Body: []byte(`{}`)}},
		})
		n := b.count(t, "as_issued_products")
		return n == 1, fmt.Sprintf("%d products", n)
	})
	client.RecordFailure(t.Context(), feedclient.Failure{Source: "nws_alerts", Request: "mine", FetchedAt: time.Now(), HTTPStatus: 503, Reason: "down"})
	if b.count(t, "as_issued_failed_reads WHERE http_status = 503 AND reason = 'down'") != 1 {
		t.Error("the failure was not kept")
	}
}

func TestRefusedPushes(t *testing.T) {
	t.Parallel()
	b := setup(t, checkedIn(t))
	pusher := b.dial(t, "reconciler")
	at := func(d time.Duration) *feedarchiverv1.ReadHeader {
		h := header("nws_alerts", 0)
		h.FetchedAt = timestamppb.New(time.Now().Add(d))
		return h
	}
	with := func(change func(*feedarchiverv1.ReadHeader), items int) *feedarchiverv1.ReadHeader {
		h := header("nws_alerts", items)
		change(h)
		return h
	}
	never := &timestamppb.Timestamp{Seconds: 1 << 60}
	for name, c := range map[string]struct {
		as     string
		header *feedarchiverv1.ReadHeader
		items  []*feedarchiverv1.ReadItem
		want   codes.Code
	}{
		"a source of somebody else":  {"reconciler", header("usgs_earthquakes", 0), nil, codes.PermissionDenied},
		"a system that may not push": {"signer", header("nws_alerts", 0), nil, codes.PermissionDenied},
		"a source without rights":    {"reconciler", header("unregistered", 0), nil, codes.FailedPrecondition},
		"fetched in the future":      {"reconciler", at(time.Minute), nil, codes.InvalidArgument},
		"fetched too long ago":       {"reconciler", at(-6 * time.Minute), nil, codes.InvalidArgument},
		"fewer items than said":      {"reconciler", header("nws_alerts", 2), []*feedarchiverv1.ReadItem{item("a", "{}")}, codes.InvalidArgument},
		"more items than said":       {"reconciler", header("nws_alerts", 0), []*feedarchiverv1.ReadItem{item("a", "{}")}, codes.InvalidArgument},
		"an item without an id":      {"reconciler", header("nws_alerts", 1), []*feedarchiverv1.ReadItem{item("", "{}")}, codes.InvalidArgument},
		"more bytes than the limit":  {"reconciler", header("nws_alerts", 1), []*feedarchiverv1.ReadItem{item("a", string(make([]byte, 2<<20)))}, codes.ResourceExhausted},
		"an item that is not JSON":   {"reconciler", header("nws_alerts", 1), []*feedarchiverv1.ReadItem{item("a", "{")}, codes.FailedPrecondition},
		"a request with NUL in it":   {"reconciler", with(func(h *feedarchiverv1.ReadHeader) { h.Request = "a\x00b" }, 0), nil, codes.InvalidArgument},
		"fetched at no time":         {"reconciler", with(func(h *feedarchiverv1.ReadHeader) { h.FetchedAt = never }, 0), nil, codes.InvalidArgument},
		"issued at no time":          {"reconciler", header("nws_alerts", 1), []*feedarchiverv1.ReadItem{{ProductId: "a", Kind: feedarchiverv1.ItemKind_ITEM_KIND_JSON, Body: []byte("{}"), IssuedAt: never}}, codes.InvalidArgument},
		"an item with NUL in its id": {"reconciler", header("nws_alerts", 1), []*feedarchiverv1.ReadItem{item("a\x00", "{}")}, codes.FailedPrecondition},
		"an item without a body":     {"reconciler", header("nws_alerts", 1), []*feedarchiverv1.ReadItem{{ProductId: "a", Kind: feedarchiverv1.ItemKind_ITEM_KIND_TEXT}}, codes.FailedPrecondition},
		"an item of no kind":         {"reconciler", header("nws_alerts", 1), []*feedarchiverv1.ReadItem{{ProductId: "a", Body: []byte("{}")}}, codes.InvalidArgument},
		"status 503 as a read":       {"reconciler", with(func(h *feedarchiverv1.ReadHeader) { h.HttpStatus = 503 }, 0), nil, codes.FailedPrecondition},
		"status 304 as a read":       {"reconciler", with(func(h *feedarchiverv1.ReadHeader) { h.HttpStatus = 304 }, 0), nil, codes.FailedPrecondition},
		"not modified, with 200":     {"reconciler", with(func(h *feedarchiverv1.ReadHeader) { h.NotModified = true }, 0), nil, codes.FailedPrecondition},
		"not modified, with items":   {"reconciler", with(func(h *feedarchiverv1.ReadHeader) { h.HttpStatus, h.NotModified = 304, true }, 1), []*feedarchiverv1.ReadItem{item("a", "{}")}, codes.FailedPrecondition},
		"status 42":                  {"reconciler", with(func(h *feedarchiverv1.ReadHeader) { h.HttpStatus = 42 }, 0), nil, codes.InvalidArgument},
		"fewer items than none":      {"reconciler", header("nws_alerts", -1), nil, codes.InvalidArgument},
		"a request without a name":   {"reconciler", &feedarchiverv1.ReadHeader{Source: "nws_alerts", FetchedAt: timestamppb.Now(), HttpStatus: 200}, nil, codes.InvalidArgument},
	} {
		conn := pusher
		if c.as != "reconciler" {
			conn = b.dial(t, c.as)
		}
		if _, err := push(t, conn, c.header, c.items...); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if n := b.count(t, "as_issued_products") + b.count(t, "as_issued_polls"); n != 0 {
		t.Errorf("refused pushes left %d rows", n)
	}
	// What was a read, and holds what cannot be kept, stands among the failed ones.
	if n := b.count(t, "as_issued_failed_reads WHERE request = 'pushed'"); n != 7 {
		t.Errorf("%d failed reads, want 7", n)
	}
	if b.count(t, "as_issued_failed_reads WHERE http_status = 503 AND reason = 'not a complete read: status 503'") != 1 {
		t.Error("a 503 that was pushed as a read is no failed read")
	}
}

// The first message is the header, and there is one.
func TestThePartsOfAPush(t *testing.T) {
	t.Parallel()
	b := setup(t, checkedIn(t))
	head := &feedarchiverv1.RecordReadRequest{Part: &feedarchiverv1.RecordReadRequest_Header{Header: header("nws_alerts", 1)}}
	items := &feedarchiverv1.RecordReadRequest{Part: &feedarchiverv1.RecordReadRequest_Items{Items: &feedarchiverv1.ReadItems{Items: []*feedarchiverv1.ReadItem{item("a", "{}")}}}}
	client := feedarchiverv1.NewRecordServiceClient(b.dial(t, "reconciler"))
	for name, parts := range map[string][]*feedarchiverv1.RecordReadRequest{
		"nothing": nil, "items first": {items, head}, "items alone": {items}, "two headers": {head, head, items},
		"a header after the items": {head, items, head}, "an empty message": {{}}, "an empty list": {head, {Part: &feedarchiverv1.RecordReadRequest_Items{}}},
	} {
		stream, err := client.RecordRead(t.Context(), grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			_ = stream.Send(part)
		}
		if _, err := stream.CloseAndRecv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := b.count(t, "as_issued_products") + b.count(t, "as_issued_polls") + b.count(t, "as_issued_failed_reads"); n != 0 {
		t.Errorf("refused pushes left %d rows", n)
	}
}

// Failed reads are taken from whom reads are, and refused for the same reasons.
func TestRefusedFailedReads(t *testing.T) {
	t.Parallel()
	b := setup(t, checkedIn(t))
	failed := func(source, request string, at *timestamppb.Timestamp) *feedarchiverv1.RecordFailedReadRequest {
		return &feedarchiverv1.RecordFailedReadRequest{Source: source, Request: request, FetchedAt: at, Reason: "down"}
	}
	now := timestamppb.Now()
	for name, c := range map[string]struct {
		as      string
		request *feedarchiverv1.RecordFailedReadRequest
		want    codes.Code
	}{
		"a source of somebody else":  {"reconciler", failed("usgs_earthquakes", "r", now), codes.PermissionDenied},
		"a system that may not push": {"signer", failed("nws_alerts", "r", now), codes.PermissionDenied},
		"a source without rights":    {"reconciler", failed("unregistered", "r", now), codes.FailedPrecondition},
		"too long ago":               {"reconciler", failed("nws_alerts", "r", timestamppb.New(time.Now().Add(-6*time.Minute))), codes.InvalidArgument},
		"at no time":                 {"reconciler", failed("nws_alerts", "r", &timestamppb.Timestamp{Nanos: -1}), codes.InvalidArgument},
		"NUL in the request's name":  {"reconciler", failed("nws_alerts", "\x00", now), codes.InvalidArgument},
	} {
		_, err := feedarchiverv1.NewRecordServiceClient(b.dial(t, c.as)).RecordFailedRead(t.Context(), c.request, grpc.WaitForReady(true))
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if n := b.count(t, "as_issued_failed_reads"); n != 0 {
		t.Errorf("refused failed reads left %d rows", n)
	}
}

// A stream that is cut off stores nothing, whatever came before.
func TestAnAbortedStreamStoresNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, checkedIn(t))
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := feedarchiverv1.NewRecordServiceClient(b.dial(t, "reconciler")).RecordRead(ctx, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&feedarchiverv1.RecordReadRequest{Part: &feedarchiverv1.RecordReadRequest_Header{Header: header("nws_alerts", 1)}})
	_ = stream.Send(&feedarchiverv1.RecordReadRequest{Part: &feedarchiverv1.RecordReadRequest_Items{Items: &feedarchiverv1.ReadItems{Items: []*feedarchiverv1.ReadItem{item("a", "{}")}}}})
	cancel()
	_, _ = stream.CloseAndRecv()
	// A push after it is stored, so the server is past the aborted one.
	if _, err := push(t, b.dial(t, "reconciler"), header("nws_alerts", 0)); err != nil {
		t.Fatal(err)
	}
	if b.count(t, "as_issued_products") != 0 || b.count(t, "as_issued_polls") != 1 {
		t.Error("the aborted stream left something")
	}
}

// Personal fields are removed whether the pusher thinks of it or not.
func TestPushedPersonalFieldsAreRemoved(t *testing.T) {
	t.Parallel()
	b := setup(t, checkedIn(t))
	if _, err := push(t, b.dial(t, "reconciler"), header("usgs_stn_hwms", 1), item("hwm:1", `{"hwm_id":1,"flagMemberName":"Jane Doe"}`)); err != nil {
		t.Fatal(err)
	}
	if b.count(t, "as_issued_products WHERE content_text LIKE '%Jane%'") != 0 || b.count(t, "as_issued_products WHERE content_text LIKE '%_archive_removed_fields%flagMemberName%'") != 1 {
		t.Error("the personal field was stored, or its removal is not said")
	}
}

// Everything that a stranger can ask, over the archive of two reads.
func TestPublicReads(t *testing.T) {
	t.Parallel()
	b := setup(t, checkedIn(t))
	pusher := b.dial(t, "reconciler")
	ask := feedarchiverv1.NewAsIssuedServiceClient(b.dial(t, "ledger"))
	ctx := t.Context()

	first, between, second := header("nws_alerts", 2), timestamppb.New(time.Now().Add(-time.Second)), header("nws_alerts", 2)
	first.FetchedAt = timestamppb.New(between.AsTime().Add(-time.Second))
	if _, err := push(t, pusher, first, item("a", `{"v":1}`), item("b", `{"v":1}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := push(t, pusher, second, item("a", `{"v":2}`), item("b", `{"v":1}`)); err != nil {
		t.Fatal(err)
	}
	hash := func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) }

	product, err := ask.GetProduct(ctx, &feedarchiverv1.GetProductRequest{Hash: hash(`{"v":1}`)})
	if err != nil || product.GetProductId() != "a" || product.GetBody() != `{"v":1}` || product.GetByteLength() != 7 || product.GetEncoding() != "json" ||
		len(product.GetAlso()) != 1 || product.GetAlso()[0].GetProductId() != "b" || product.GetSealed().GetState() != "not_sealed" || product.ItemKey != nil || product.IssuedAt != nil {
		t.Errorf("product: %v, %v", product, err)
	}
	body, err := ask.GetProductBody(ctx, &feedarchiverv1.GetProductBodyRequest{Hash: hash(`{"v":2}`)})
	if err != nil || string(body.GetBody()) != `{"v":2}` || body.GetContentType() != "application/json" {
		t.Errorf("body: %v, %v", body, err)
	}
	one := int32(1)
	versions, err := ask.ListVersions(ctx, &feedarchiverv1.ListVersionsRequest{Source: "nws_alerts", ProductId: "a", PageSize: &one})
	if err != nil || len(versions.GetProducts()) != 1 || versions.GetProducts()[0].GetHash() != hash(`{"v":1}`) || versions.NextPageToken == nil {
		t.Fatalf("versions: %v, %v", versions, err)
	}
	versions, err = ask.ListVersions(ctx, &feedarchiverv1.ListVersionsRequest{Source: "nws_alerts", ProductId: "a", PageSize: &one, PageToken: versions.NextPageToken})
	if err != nil || len(versions.GetProducts()) != 1 || versions.GetProducts()[0].GetHash() != hash(`{"v":2}`) || versions.NextPageToken != nil {
		t.Errorf("versions: %v, %v", versions, err)
	}
	day := time.Now().UTC().Format(time.DateOnly)
	polls, err := ask.ListPolls(ctx, &feedarchiverv1.ListPollsRequest{Source: "nws_alerts", Day: day, PageSize: &one})
	if err != nil || len(polls.GetPolls()) != 1 || polls.GetPolls()[0].GetItemsNew() != 2 || polls.NextPageToken == nil {
		t.Fatalf("polls: %v, %v", polls, err)
	}
	polls, err = ask.ListPolls(ctx, &feedarchiverv1.ListPollsRequest{Source: "nws_alerts", Day: day, PageSize: &one, PageToken: polls.NextPageToken})
	if err != nil || len(polls.GetPolls()) != 1 || polls.GetPolls()[0].GetItemsNew() != 1 || polls.NextPageToken != nil {
		t.Errorf("polls: %v, %v", polls, err)
	}
	then, err := ask.GetAsOf(ctx, &feedarchiverv1.GetAsOfRequest{Source: "nws_alerts", At: between})
	if err != nil || len(then.GetReads()) != 1 || len(then.GetReads()[0].GetItems()) != 2 || then.GetReads()[0].GetItems()[0].GetHash() != hash(`{"v":1}`) || then.GetReads()[0].GetPoll().GetItemsNew() != 2 {
		t.Fatalf("as of: %v, %v", then, err)
	}
	// At the very moment of a read it counts already.
	then, err = ask.GetAsOf(ctx, &feedarchiverv1.GetAsOfRequest{Source: "nws_alerts", At: then.GetReads()[0].GetPoll().GetFetchedAt()})
	if err != nil || len(then.GetReads()) != 1 || then.GetReads()[0].GetPoll().GetItemsNew() != 2 {
		t.Errorf("as of the moment of the first read: %v, %v", then, err)
	}
	never, nul := "never", "\x00"
	if then, err = ask.GetAsOf(ctx, &feedarchiverv1.GetAsOfRequest{Source: "nws_alerts", At: between, Request: &never}); err != nil || len(then.GetReads()) != 0 {
		t.Errorf("as of, another request: %v, %v", then, err)
	}
	diff, err := ask.GetDiff(ctx, &feedarchiverv1.GetDiffRequest{Source: "nws_alerts", From: between, To: timestamppb.Now()})
	if err != nil || len(diff.GetAppeared()) != 1 || diff.GetAppeared()[0].GetHash() != hash(`{"v":2}`) || len(diff.GetDisappeared()) != 1 || diff.GetDisappeared()[0].GetHash() != hash(`{"v":1}`) {
		t.Errorf("diff: %v, %v", diff, err)
	}
	continuity, err := ask.GetContinuity(ctx, &feedarchiverv1.GetContinuityRequest{Month: time.Now().UTC().Format("2006-01")})
	if err != nil || len(continuity.GetSources()) != 1 || continuity.GetSources()[0].GetStatus() != "single_read" || continuity.GetSources()[0].UsualIntervalSeconds != nil {
		t.Errorf("continuity: %v, %v", continuity, err)
	}

	for name, err := range map[string]error{
		"no such hash": failing(ask.GetProduct(ctx, &feedarchiverv1.GetProductRequest{Hash: hash("x")})),
		"no such body": failing(ask.GetProductBody(ctx, &feedarchiverv1.GetProductBodyRequest{Hash: hash("x")})),
	} {
		if status.Code(err) != codes.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"a hash in capitals":   failing(ask.GetProduct(ctx, &feedarchiverv1.GetProductRequest{Hash: "AB"})),
		"a day of no calendar": failing(ask.ListPolls(ctx, &feedarchiverv1.ListPollsRequest{Source: "nws_alerts", Day: "2026-02-30"})),
		"month 13":             failing(ask.GetContinuity(ctx, &feedarchiverv1.GetContinuityRequest{Month: "2026-13"})),
		"no moment":            failing(ask.GetAsOf(ctx, &feedarchiverv1.GetAsOfRequest{Source: "nws_alerts"})),
		"backwards":            failing(ask.GetDiff(ctx, &feedarchiverv1.GetDiffRequest{Source: "nws_alerts", From: timestamppb.Now(), To: between})),
		"a source with NUL":    failing(ask.ListPolls(ctx, &feedarchiverv1.ListPollsRequest{Source: "\x00", Day: day})),
		"a diff with NUL":      failing(ask.GetDiff(ctx, &feedarchiverv1.GetDiffRequest{Source: "\x00", From: between, To: between})),
		"a product with NUL":   failing(ask.ListVersions(ctx, &feedarchiverv1.ListVersionsRequest{Source: "nws_alerts", ProductId: nul})),
		"a request with NUL":   failing(ask.GetAsOf(ctx, &feedarchiverv1.GetAsOfRequest{Source: "nws_alerts", At: between, Request: &nul})),
		"a made-up token":      failing(ask.ListVersions(ctx, &feedarchiverv1.ListVersionsRequest{Source: "nws_alerts", ProductId: "a", PageToken: &never})),
	} {
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ask.GetProduct(ctx, &feedarchiverv1.GetProductRequest{Hash: hash("x")}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	if err := failing(feedarchiverv1.NewAsIssuedServiceClient(b.dial(t, "signer")).GetProduct(ctx, &feedarchiverv1.GetProductRequest{Hash: hash("x")})); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a caller who is not listed: %v", err)
	}
}

func failing[T any](_ T, err error) error { return err }

// Where the register forbids redistribution the hash is shown and the body is not.
func TestRedistributionForbidden(t *testing.T) {
	t.Parallel()
	b := setup(t, rights.Register{"nws_alerts": {StoragePermitted: true}})
	if _, err := push(t, b.dial(t, "reconciler"), header("nws_alerts", 1), item("a", `{"v":1}`)); err != nil {
		t.Fatal(err)
	}
	ask := feedarchiverv1.NewAsIssuedServiceClient(b.dial(t, "ledger"))
	sum := sha256.Sum256([]byte(`{"v":1}`))
	hash := hex.EncodeToString(sum[:])
	product, err := ask.GetProduct(t.Context(), &feedarchiverv1.GetProductRequest{Hash: hash})
	if err != nil || product.Body != nil || product.GetHash() != hash {
		t.Errorf("%v, %v", product, err)
	}
	if err := failing(ask.GetProductBody(t.Context(), &feedarchiverv1.GetProductBodyRequest{Hash: hash})); status.Code(err) != codes.NotFound {
		t.Errorf("the body: %v", err)
	}
}

func TestFeedsAreTheOperators(t *testing.T) {
	t.Parallel()
	b := setup(t, checkedIn(t))
	operator := feedarchiverv1.NewFeedServiceClient(b.dial(t, "operator"))
	list, err := operator.ListFeeds(t.Context(), &feedarchiverv1.ListFeedsRequest{}, grpc.WaitForReady(true))
	if err != nil || len(list.GetFeeds()) != 1 || list.GetFeeds()[0].GetSource() != "nws_alerts" || list.GetFeeds()[0].LastReadAt != nil {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := operator.ReadFeed(t.Context(), &feedarchiverv1.ReadFeedRequest{Source: "usgs_earthquakes"}); status.Code(err) != codes.NotFound {
		t.Errorf("a source that this archiver does not read: %v", err)
	}
	if _, err := feedarchiverv1.NewFeedServiceClient(b.dial(t, "ledger")).ReadFeed(t.Context(), &feedarchiverv1.ReadFeedRequest{Source: "nws_alerts"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the ledger may read feeds: %v", err)
	}
}

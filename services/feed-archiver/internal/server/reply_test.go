package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/muniment/muniment/pkg/grpcx"
	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/testkit"
)

// patiently asks again while a busy machine has not read so much in time.
func patiently[T any](t *testing.T, ask func() (T, error)) (reply T, err error) {
	t.Helper()
	testkit.Eventually(t, 3*time.Minute, func() (bool, string) {
		reply, err = ask()
		return status.Code(err) != codes.Unavailable, status.Convert(err).Message()
	})
	return reply, err
}

// tooLarge wants the archiver's own words, and none of gRPC's.
func tooLarge(t *testing.T, what string, err error) {
	t.Helper()
	if st := status.Convert(err); st.Code() != codes.ResourceExhausted || !strings.HasPrefix(st.Message(), what+" is over the limit of ") {
		t.Errorf("%v; want that %s is too large", err, what)
	}
}

// What two requests held is more than a reply carries; what one of them held is
// not, nor what changed in it.
func TestMoreThanAReplyCarries(t *testing.T) {
	t.Parallel()
	b := setup(t, checkedIn(t))
	for _, request := range []string{"a", "b"} {
		// 18,000 products with names as long as they may be.
		const insert = `WITH held AS (
				INSERT INTO feed.as_issued_products (source, request, product_id, content_hash, byte_length, encoding, content_text)
				SELECT 'nws_alerts', $1, rpad($1 || g || '.', 1000, md5(g::text)), encode(sha256(convert_to($1 || g, 'UTF8')), 'hex'), octet_length($1 || g), 'text', $1 || g
				FROM generate_series(1, 18000) g RETURNING id
			)
			INSERT INTO feed.as_issued_polls (source, request, fetched_at, http_status, items_seen, items_new, held)
			SELECT 'nws_alerts', $1, now(), 200, 18000, 18000, array_agg(id ORDER BY id) FROM held`
		if _, err := b.superuser.Exec(t.Context(), insert, request); err != nil {
			t.Fatal(err)
		}
	}
	ask := feedarchiverv1.NewAsIssuedServiceClient(b.dial(t, "ledger"))
	now, before := timestamppb.Now(), timestamppb.New(time.Now().Add(-time.Hour))
	_, err := patiently(t, func() (*feedarchiverv1.GetAsOfResponse, error) {
		return ask.GetAsOf(t.Context(), &feedarchiverv1.GetAsOfRequest{Source: "nws_alerts", At: now}, grpc.WaitForReady(true))
	})
	tooLarge(t, "what the feed held at that moment", err)
	_, err = patiently(t, func() (*feedarchiverv1.GetDiffResponse, error) {
		return ask.GetDiff(t.Context(), &feedarchiverv1.GetDiffRequest{Source: "nws_alerts", From: before, To: now})
	})
	tooLarge(t, "what changed between the two moments", err)

	one := "a"
	then, err := patiently(t, func() (*feedarchiverv1.GetAsOfResponse, error) {
		return ask.GetAsOf(t.Context(), &feedarchiverv1.GetAsOfRequest{Source: "nws_alerts", At: now, Request: &one})
	})
	if err != nil || len(then.GetReads()) != 1 || len(then.GetReads()[0].GetItems()) != 18_000 || proto.Size(then) < grpcx.MaxMessageBytes/2 {
		t.Errorf("one request: %d bytes, %v", proto.Size(then), err)
	}
	if _, err := b.superuser.Exec(t.Context(), `INSERT INTO feed.as_issued_polls (source, request, fetched_at, http_status, items_seen, items_new, held)
		SELECT source, request, now(), 200, 17999, 0, held[2:] FROM feed.as_issued_polls WHERE request = 'b'`); err != nil {
		t.Fatal(err)
	}
	diff, err := patiently(t, func() (*feedarchiverv1.GetDiffResponse, error) {
		return ask.GetDiff(t.Context(), &feedarchiverv1.GetDiffRequest{Source: "nws_alerts", From: now, To: timestamppb.Now()})
	})
	if err != nil || len(diff.GetAppeared()) != 0 || len(diff.GetDisappeared()) != 1 || !strings.HasPrefix(diff.GetDisappeared()[0].GetProductId(), "b1.") {
		t.Errorf("one item that disappeared: %v, %v", diff, err)
	}
}

// A body that no reply carries is refused before it is read, and its bytes are
// handed out where they are fewer.
func TestABodyThatNoReplyCarries(t *testing.T) {
	t.Parallel()
	b := setup(t, checkedIn(t))
	insert := func(encoding, text string) string {
		sum := sha256.Sum256([]byte(text))
		hash := hex.EncodeToString(sum[:])
		if _, err := b.superuser.Exec(t.Context(), `INSERT INTO feed.as_issued_products (source, request, product_id, content_hash, byte_length, encoding, content_text)
			VALUES ('nws_alerts', 'r', 'p', $1, $2, $3, $4)`, hash, len(text), encoding, text); err != nil {
			t.Fatal(err)
		}
		return hash
	}
	text, packed := insert("text", strings.Repeat("a", grpcx.MaxMessageBytes)), insert("base64", strings.Repeat("QUJD", 10<<20))
	ask := feedarchiverv1.NewAsIssuedServiceClient(b.dial(t, "ledger"))
	for _, hash := range []string{text, packed} {
		_, err := ask.GetProduct(t.Context(), &feedarchiverv1.GetProductRequest{Hash: hash}, grpc.WaitForReady(true))
		tooLarge(t, "the product's body", err)
		_, err = ask.GetProductBody(t.Context(), &feedarchiverv1.GetProductBodyRequest{Hash: hash})
		tooLarge(t, "the product's body", err)
	}
	_, err := ask.GetProductBody(t.Context(), &feedarchiverv1.GetProductBodyRequest{Hash: text, Decode: true})
	tooLarge(t, "the product's body", err)
	bytes, err := patiently(t, func() (*feedarchiverv1.ProductBody, error) {
		return ask.GetProductBody(t.Context(), &feedarchiverv1.GetProductBodyRequest{Hash: packed, Decode: true})
	})
	if err != nil || len(bytes.GetBody()) != 30<<20 {
		t.Errorf("the bytes: %d, %v", len(bytes.GetBody()), err)
	}
}

package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// statements notes what a connection sends, alone or in a batch.
type statements struct{ sent []string }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.sent = append(s.sent, data.SQL)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		s.sent = append(s.sent, q.SQL)
	}
	return ctx
}

func (s *statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// One read is three statements whatever its size: the lookup, the lock, and
// the one that writes. A 304 looks nothing up.
func TestAReadIsThreeStatements(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(testkit.Postgres(t).URL("feed"))
	if err != nil {
		t.Fatal(err)
	}
	var traced statements
	config.MaxConns, config.ConnConfig.Tracer = 1, &traced
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := store.New(pool)
	for _, size := range []int{0, 1, 480, 5_000} {
		numbers := make([]int, size)
		for i := range numbers {
			numbers[i] = i
		}
		for _, round := range []string{"new", "known"} {
			traced.sent = nil
			record(t, s, "a", numbers)
			want := 3
			if size == 0 {
				want = 2
			}
			if len(traced.sent) != want {
				t.Errorf("%d items, all %s: %d statements, want %d: %q", size, round, len(traced.sent), want, traced.sent)
			}
		}
	}
	traced.sent = nil
	if _, err := s.Record(t.Context(), store.Poll{Source: "demo", Request: "a", FetchedAt: time.Now(), HTTPStatus: 304}, nil, nil); err != nil || len(traced.sent) != 2 {
		t.Errorf("a 304: %q, %v", traced.sent, err)
	}
}

// The database itself holds that a body is there once: by source, product id,
// item key, present or not, and hash.
func TestABodyIsThereOnce(t *testing.T) {
	t.Parallel()
	superuser := testkit.Postgres(t).Pool(t, "superuser")
	insert := func(source, product string, key *string, text string) error {
		_, err := superuser.Exec(t.Context(), `INSERT INTO feed.as_issued_products (source, request, product_id, item_key, content_hash, byte_length, encoding, content_text)
			VALUES ($1, 'r', $2, $3, encode(sha256(convert_to($4, 'UTF8')), 'hex'), octet_length($4), 'text', $4)`, source, product, key, text)
		return err
	}
	key, other := "k", "l"
	for _, c := range []struct {
		source, product string
		key             *string
		text            string
	}{
		{"s", "p", nil, "1"}, {"s", "p", &key, "1"}, {"s", "p", &other, "1"}, {"s", "q", nil, "1"}, {"t", "p", nil, "1"}, {"s", "p", nil, "2"},
	} {
		if err := insert(c.source, c.product, c.key, c.text); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		var pgErr *pgconn.PgError
		if err := insert(c.source, c.product, c.key, c.text); !errors.As(err, &pgErr) || pgErr.Code != "23505" {
			t.Errorf("%+v again: %v", c, err)
		}
	}
}

// The lookup knows a body only as what it was stored as: of another source,
// product or item key it is new.
func TestABodyIsKnownByAllThatNamesIt(t *testing.T) {
	t.Parallel()
	s := store.New(testkit.Postgres(t).Pool(t, "feed"))
	stored := body(1)
	stored.ItemKey = "k"
	seen := int64(1)
	if _, err := s.Record(t.Context(), store.Poll{Source: "demo", Request: "a", FetchedAt: time.Now(), HTTPStatus: 200, Seen: &seen}, []int64{0}, []store.Body{stored}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		source string
		change func(*store.Key)
		known  bool
	}{
		"as it was stored":    {"demo", func(*store.Key) {}, true},
		"of another source":   {"other", func(*store.Key) {}, false},
		"of another product":  {"demo", func(k *store.Key) { k.ProductID = "q" }, false},
		"of another item key": {"demo", func(k *store.Key) { k.ItemKey = "l" }, false},
		"of no item key":      {"demo", func(k *store.Key) { k.ItemKey = "" }, false},
		"another body":        {"demo", func(k *store.Key) { k.Hash = body(2).Hash }, false},
	} {
		key := stored.Key
		c.change(&key)
		ids, err := s.Known(t.Context(), c.source, []store.Key{key})
		if err != nil || len(ids) != 1 || (ids[0] != 0) != c.known {
			t.Errorf("%s: %v, %v; want known: %t", name, ids, err, c.known)
		}
	}
}

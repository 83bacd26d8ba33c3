package store_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// generated rows: products in versions of ten, polls a minute apart over many
// requests, as a superuser who disables the triggers can write them.
const (
	generateProducts = `INSERT INTO feed.as_issued_products (source, request, product_id, received_at, content_hash, byte_length, encoding, content_text)
		SELECT 'demo', 'r', 'p' || g / 10, now() - make_interval(secs => ($1 - g)), encode(sha256(convert_to(g::text, 'UTF8')), 'hex'), length(g::text), 'text', g::text
		FROM generate_series(1, $1::int) g`
	generatePolls = `INSERT INTO feed.as_issued_polls (source, request, fetched_at, received_at, http_status, items_seen, items_new, held)
		SELECT 'demo', 'r' || g % 20, t, t, 200, 0, 0, '{}'
		FROM generate_series(1, $1::int) g, LATERAL (SELECT now() - make_interval(mins => $1 - g) AS t) x`
)

// The tables stay fast: what is asked of them takes its time from the answer's
// size, and not from the table's.
func TestLargeTablesStayFast(t *testing.T) {
	products, polls := testkit.Soak(20_000, 2_000_000), testkit.Soak(10_000, 1_000_000)
	db := testkit.Postgres(t)
	su := db.Pool(t, "superuser")
	tx, err := su.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		statement string
		args      []any
	}{
		{"ALTER TABLE feed.as_issued_products DISABLE TRIGGER stamp", nil},
		{"ALTER TABLE feed.as_issued_polls DISABLE TRIGGER stamp", nil},
		{generateProducts, []any{products}},
		{generatePolls, []any{polls}},
		{"ALTER TABLE feed.as_issued_products ENABLE ALWAYS TRIGGER stamp", nil},
		{"ALTER TABLE feed.as_issued_polls ENABLE ALWAYS TRIGGER stamp", nil},
	} {
		if _, err := tx.Exec(t.Context(), step.statement, step.args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := su.Exec(t.Context(), "ANALYZE feed.as_issued_products, feed.as_issued_polls"); err != nil {
		t.Fatal(err)
	}

	s := store.New(db.Pool(t, "feed"))
	middle := generatedHash(products / 2)
	for name, ask := range map[string]func() error{
		"by hash": func() error { _, err := s.Bodies(t.Context(), middle); return err },
		"a product's versions": func() error {
			rows, _, err := s.Versions(t.Context(), "demo", fmt.Sprintf("p%d", products/20), 0, 100)
			if err == nil && len(rows) != 10 {
				err = fmt.Errorf("%d versions", len(rows))
			}
			return err
		},
		"a day's polls": func() error {
			until := time.Now().Add(-48 * time.Hour)
			_, _, err := s.Polls(t.Context(), "demo", until.Add(-24*time.Hour), until, nil, 2000)
			return err
		},
		"the last polls": func() error {
			rows, err := s.LastPolls(t.Context(), "demo", time.Now().Add(-24*time.Hour), nil)
			if err == nil && len(rows) != 20 {
				err = fmt.Errorf("%d requests", len(rows))
			}
			return err
		},
		"known bodies": func() error {
			keys := make([]store.Key, 480)
			for i := range keys {
				n := products - i
				keys[i] = store.Key{ProductID: fmt.Sprintf("p%d", n/10), Hash: generatedHash(n)}
			}
			ids, err := s.Known(t.Context(), "demo", keys)
			for _, id := range ids {
				if err == nil && id == 0 {
					err = fmt.Errorf("a stored body is not known")
				}
			}
			return err
		},
	} {
		best := time.Hour
		for range 5 {
			began := time.Now()
			if err := ask(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			best = min(best, time.Since(began))
		}
		t.Logf("%s among %d products and %d polls: %s", name, products, polls, best)
		if best > 250*time.Millisecond {
			t.Errorf("%s takes %s", name, best)
		}
	}
}

// generatedHash is the hash of a generated product's text.
func generatedHash(n int) string {
	sum := sha256.Sum256(fmt.Append(nil, n))
	return hex.EncodeToString(sum[:])
}

package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/testkit"
)

// history fills the table with delivered rows, as its owner.
func (b bundle) history(t *testing.T, rows int) {
	t.Helper()
	const fill = `
		INSERT INTO outbox.fga_outbox (payload, processed_at)
		SELECT jsonb_build_object('writes', jsonb_build_array(
		           jsonb_build_object('user', 'user:alice', 'relation', 'owner', 'object', 'capture_job:old-' || n))), now()
		  FROM generate_series(1, $1::int) AS n`
	if _, err := b.db.Pool(t, "superuser").Exec(t.Context(), fill, rows); err != nil {
		t.Fatalf("filling the history: %v", err)
	}
}

// Claiming looks at undelivered rows only, whatever stands in the table, whether
// or not Postgres has had the time to count what is in it, and while a long
// transaction elsewhere keeps dead versions alive. Stated volume: 1,000,000
// delivered rows.
func TestT30ClaimingDoesNotSeeTheHistory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	reader, err := b.db.Pool(t, "superuser").BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.Background()) }()
	if _, err := reader.Exec(t.Context(), "SELECT count(*) FROM outbox.fga_outbox"); err != nil {
		t.Fatal(err)
	}

	claimAll := func() time.Duration {
		began := time.Now()
		claim, ids := b.claim(t, time.Minute, 100)
		took := time.Since(began)
		if len(ids) != 100 {
			t.Fatalf("claimed %d rows", len(ids))
		}
		if err := b.store.Deliver(t.Context(), claim, ids); err != nil {
			t.Fatal(err)
		}
		return took
	}
	var before, after time.Duration
	for range 5 {
		b.queueHundred(t)
		before += claimAll() / 5
	}
	b.history(t, testkit.Soak(20_000, 1_000_000))
	for range 5 {
		b.queueHundred(t)
		after += claimAll() / 5
	}
	t.Logf("claiming 100 rows took %s before the history and %s after", before, after)
	if after > 5*before+50*time.Millisecond {
		t.Errorf("claiming 100 rows took %s before the history and %s after", before, after)
	}

	b.claimReadsNoHistory(t, "never analyzed")
	if _, err := b.db.Pool(t, "superuser").Exec(t.Context(), "ANALYZE outbox.fga_outbox"); err != nil {
		t.Fatal(err)
	}
	b.claimReadsNoHistory(t, "analyzed with an empty queue")
}

// queueHundred queues rows of a hundred objects in one transaction.
func (b bundle) queueHundred(t *testing.T) {
	t.Helper()
	batch := &pgx.Batch{}
	for n := range 100 {
		batch.Queue("INSERT INTO outbox.fga_outbox (payload) VALUES ($1)", write(fmt.Sprintf("capture_job:%d", n)))
	}
	if err := b.ledger.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatalf("queuing a hundred rows: %v", err)
	}
}

// claimReadsNoHistory runs the claim, in a transaction that is rolled back, and
// checks what it touched: few pages, and no scan of the table.
func (b bundle) claimReadsNoHistory(t *testing.T, when string) {
	t.Helper()
	b.queueHundred(t)
	tx, err := b.relay.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	var plan string
	err = tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+claimStatement(t), uuid.New(), int64(1000), int32(100)).Scan(&plan)
	if err != nil {
		t.Fatalf("explaining the claim: %v", err)
	}
	var parsed []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(plan), &parsed); err != nil {
		t.Fatal(err)
	}
	if pages := parsed[0].Plan.Hit + parsed[0].Plan.Read; pages > 20_000 {
		t.Errorf("%s: the claim of 100 rows touched %d pages", when, pages)
	}
	if strings.Contains(plan, `"Seq Scan"`) {
		t.Errorf("%s: the claim scans the table: %s", when, plan)
	}
}

// claimStatement is the claim as sqlc generated it.
func claimStatement(t *testing.T) string {
	t.Helper()
	generated, err := os.ReadFile("db/fga_outbox.sql.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)const claim = `(.*?)`").FindSubmatch(generated)
	if found == nil {
		t.Fatal("no claim among the generated statements")
	}
	_, statement, _ := strings.Cut(string(found[1]), "\n")
	return statement
}

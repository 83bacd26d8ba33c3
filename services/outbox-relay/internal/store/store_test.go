package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

// bundle is a database of one test and its pools.
type bundle struct {
	db            *testkit.DB
	ledger, relay *pgxpool.Pool
	store         *store.Store
}

func setup(t *testing.T) bundle {
	t.Helper()
	db := testkit.Postgres(t)
	b := bundle{db: db, ledger: db.Pool(t, "ledger"), relay: db.Pool(t, "relay")}
	b.store = store.New(b.relay)
	return b
}

func (b bundle) queue(t *testing.T, payload string) {
	t.Helper()
	if err := b.insert(payload); err != nil {
		t.Fatalf("queuing %s: %v", payload, err)
	}
}

func (b bundle) insert(payload string) error {
	_, err := b.ledger.Exec(context.Background(), "INSERT INTO outbox.fga_outbox (payload) VALUES ($1)", payload)
	return err
}

// write is a payload with one write.
func write(object string) string {
	return fmt.Sprintf(`{"writes":[{"user":"user:alice","relation":"owner","object":%q}]}`, object)
}

func (b bundle) claim(t *testing.T, lease time.Duration, limit int) (uuid.UUID, []int64) {
	t.Helper()
	claim := uuid.New()
	rows, err := b.store.Claim(t.Context(), claim, lease, limit)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	return claim, ids
}

func TestReadyWantsTheSchema(t *testing.T) {
	t.Parallel()
	if err := setup(t).store.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// What a row waits for, by its keys: nothing of its own transaction's order, nor
// of other objects.
func TestClaimTakesOnlyRowsThatNothingStandsBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	both := `{"writes":[{"user":"user:a","relation":"owner","object":"capture_job:1"}],"deletes":[{"user":"user:a","relation":"owner","object":"capture_job:2"}]}`
	parent := `{"writes":[{"user":"capture_job:2","relation":"parent","object":"archive:2"}]}`
	for _, payload := range []string{write("capture_job:1"), both, write("capture_job:3"), parent, write("capture_job:1"), write("archive:2")} {
		b.queue(t, payload)
	}
	order := [][]int{{0, 2}, {1}, {3, 4}, {5}} // 1 waits for 0; 3 (job 2) and 4 for 1; 5 for 3
	var ids []int64
	if err := b.relay.QueryRow(t.Context(), "SELECT array_agg(id ORDER BY id) FROM outbox.fga_outbox").Scan(&ids); err != nil {
		t.Fatal(err)
	}
	for _, step := range order {
		claim, claimed := b.claim(t, time.Minute, 100)
		var want []int64
		for _, i := range step {
			want = append(want, ids[i])
		}
		if fmt.Sprint(claimed) != fmt.Sprint(want) {
			t.Fatalf("claimed %v, want %v", claimed, want)
		}
		if _, again := b.claim(t, time.Minute, 100); len(again) != 0 {
			t.Fatalf("claimed %v twice", again)
		}
		if err := b.store.Deliver(t.Context(), claim, claimed); err != nil {
			t.Fatal(err)
		}
	}
}

// A claim is bounded, outlives its statement, ends by itself, and what ended is
// no longer the holder's to settle.
func TestT28ClaimIsALease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for n := range 5 {
		b.queue(t, write(fmt.Sprintf("capture_job:%d", n)))
	}
	first, held := b.claim(t, 300*time.Millisecond, 3)
	if len(held) != 3 {
		t.Fatalf("claimed %d rows, asked for 3", len(held))
	}
	if _, rest := b.claim(t, time.Minute, 100); len(rest) != 2 {
		t.Fatalf("the others could claim %d rows, want 2", len(rest))
	}
	if err := b.store.Renew(t.Context(), first, held, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 5*time.Second, func() (bool, string) {
		_, taken := b.claim(t, time.Minute, 1)
		return len(taken) == 1, "the lease has not ended"
	})
	if err := b.store.Deliver(t.Context(), first, held); !errors.Is(err, store.ErrClaimLost) {
		t.Errorf("settling rows of an ended claim: %v", err)
	}
}

func TestRefusedRowsWaitAndDie(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.queue(t, write("capture_job:1"))
	b.queue(t, write("capture_job:1"))
	claim, ids := b.claim(t, time.Minute, 10)
	if err := b.store.Refuse(t.Context(), claim, ids[0], "no", time.Hour, false); err != nil {
		t.Fatal(err)
	}
	if _, none := b.claim(t, time.Minute, 10); len(none) != 0 {
		t.Fatal("a refused row was taken before its time, or the row behind it was")
	}
	if _, err := b.db.Pool(t, "superuser").Exec(t.Context(), "UPDATE outbox.fga_outbox SET next_attempt_at = NULL"); err != nil {
		t.Fatal(err)
	}
	claim, ids = b.claim(t, time.Minute, 10)
	if err := b.store.Refuse(t.Context(), claim, ids[0], "still no", 0, true); err != nil {
		t.Fatal(err)
	}
	dead, err := b.store.ListDead(t.Context(), 0, 10)
	if err != nil || len(dead) != 1 || dead[0].Attempts != 2 || dead[0].Reason != "still no" {
		t.Fatalf("%+v %v", dead, err)
	}
	stats, err := b.store.Stats(t.Context())
	if err != nil || stats.Dead != 1 || stats.Waiting != 1 || stats.Oldest == nil {
		t.Errorf("%+v %v", stats, err)
	}
	if _, none := b.claim(t, time.Minute, 10); len(none) != 0 {
		t.Error("a row passed the dead one of its object")
	}
	if n, err := b.store.Retry(t.Context(), []int64{dead[0].ID}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, again := b.claim(t, time.Minute, 10); len(again) != 1 || again[0] != dead[0].ID {
		t.Errorf("after the retry %v can be taken", again)
	}
}

// What cannot be a list of tuples is refused where it enters.
func TestPayloadsThatAreNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, payload := range map[string]string{
		"empty object":      `{}`,
		"no tuple":          `{"writes":[],"deletes":[]}`,
		"array":             `[]`,
		"text":              `"writes"`,
		"number":            `1`,
		"writes no array":   `{"writes":{"user":"user:a","relation":"owner","object":"capture_job:1"}}`,
		"tuple no object":   `{"writes":["user:a"]}`,
		"another key":       `{"writes":[{"user":"user:a","relation":"owner","object":"capture_job:1"}],"write":[]}`,
		"user missing":      `{"writes":[{"relation":"owner","object":"capture_job:1"}]}`,
		"relation no text":  `{"writes":[{"user":"user:a","relation":1,"object":"capture_job:1"}]}`,
		"one of two is bad": `{"writes":[{"user":"user:a","relation":"owner","object":"capture_job:1"}],"deletes":[{}]}`,
		"long user":         `{"writes":[{"user":"user:` + strings.Repeat("a", 508) + `","relation":"owner","object":"capture_job:1"}]}`,
		"long relation":     `{"writes":[{"user":"user:a","relation":"` + strings.Repeat("a", 51) + `","object":"capture_job:1"}]}`,
		"long object":       write("capture_job:" + strings.Repeat("1", 245)),
	} {
		var refused *pgconn.PgError
		if err := b.insert(payload); !errors.As(err, &refused) || refused.Code != "23514" {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.queue(t, write("capture_job:"+strings.Repeat("1", 244)))
	b.queue(t, `{"deletes":[{"user":"user:`+strings.Repeat("é", 507)+`","relation":"`+strings.Repeat("a", 50)+`","object":"x:"}]}`)
}

// Each role tries what it must not be able to do.
func TestGrants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.queue(t, write("capture_job:1"))
	const insert = `INSERT INTO outbox.fga_outbox (payload%s) VALUES ('{"writes":[{"user":"user:a","relation":"owner","object":"capture_job:1"}]}'%s)`
	refused := map[string][]string{
		"ledger": {
			"SELECT id FROM outbox.fga_outbox",
			fmt.Sprintf(insert, "", "") + " RETURNING id",
			fmt.Sprintf(insert, ", processed_at", ", now()"),
			fmt.Sprintf(insert, ", keys", ", '{}'"),
			fmt.Sprintf(insert, ", created_at", ", now()"),
			"UPDATE outbox.fga_outbox SET attempts = 1",
			"DELETE FROM outbox.fga_outbox",
			"TRUNCATE outbox.fga_outbox",
			"SELECT nextval('outbox.fga_outbox_id_seq')",
			"CREATE TABLE outbox.mine (id int)",
		},
		"relay": {
			fmt.Sprintf(insert, "", ""),
			"UPDATE outbox.fga_outbox SET payload = '{}'",
			"UPDATE outbox.fga_outbox SET keys = '{}'",
			"UPDATE outbox.fga_outbox SET created_at = now()",
			"DELETE FROM outbox.fga_outbox",
			"TRUNCATE outbox.fga_outbox",
			"CREATE TABLE outbox.mine (id int)",
			"SELECT 1 FROM ledger.archives",
		},
		"signer":     {"SELECT id FROM outbox.fga_outbox", fmt.Sprintf(insert, "", "")},
		"reconciler": {"SELECT id FROM outbox.fga_outbox", fmt.Sprintf(insert, "", "")},
		"feed":       {"SELECT id FROM outbox.fga_outbox", fmt.Sprintf(insert, "", "")},
	}
	for role, statements := range refused {
		pool := b.db.Pool(t, role)
		for _, statement := range statements {
			_, err := pool.Exec(t.Context(), statement)
			var denied *pgconn.PgError
			if !errors.As(err, &denied) || (denied.Code != "42501" && denied.Code != "42P01") {
				t.Errorf("%s may run %q: %v", role, statement, err)
			}
		}
	}
}

// The roles' own limits hold: a transaction left open does not keep rows for ever.
func TestT30IdleTransactionsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, pool := range []*pgxpool.Pool{b.relay, b.ledger} {
		var limit string
		if err := pool.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&limit); err != nil || limit == "0" {
			t.Errorf("idle_in_transaction_session_timeout is %q, %v", limit, err)
		}
	}
}

// Discarding ends a dead row and no other, and writes down what it held; the role
// can write nothing else there, and change nothing.
func TestDiscardEndsDeadRowsAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.queue(t, write("capture_job:1"))
	b.queue(t, write("capture_job:1"))
	claim, ids := b.claim(t, time.Minute, 10)
	discard := store.Discard{ID: ids[0], Certificate: "operator", Person: "alice", Reason: "why not"}
	if err := b.store.Discard(t.Context(), discard); !errors.Is(err, store.ErrNotDead) {
		t.Errorf("a row that is under way: %v", err)
	}
	if err := b.store.Refuse(t.Context(), claim, ids[0], "no such relation", 0, true); err != nil {
		t.Fatal(err)
	}
	if _, behind := b.claim(t, time.Minute, 10); len(behind) != 0 {
		t.Fatalf("rows %v were taken past a dead one", behind)
	}
	if err := b.store.Discard(t.Context(), discard); err != nil {
		t.Fatal(err)
	}
	if _, behind := b.claim(t, time.Minute, 10); len(behind) != 1 {
		t.Errorf("the row behind a discarded one still waits")
	}
	if retried, err := b.store.RetryAll(t.Context()); err != nil || retried != 0 {
		t.Errorf("%d rows came back, %v", retried, err)
	}
	for _, id := range []int64{ids[0], ids[0] + 1, 1 << 40} {
		discard.ID = id
		if err := b.store.Discard(t.Context(), discard); !errors.Is(err, store.ErrNotDead) {
			t.Errorf("row %d: %v", id, err)
		}
	}
	for _, statement := range []string{
		"UPDATE outbox.discards SET person = 'bob'", "DELETE FROM outbox.discards", "TRUNCATE outbox.discards",
		"INSERT INTO outbox.discards (row_id, certificate, person, reason, payload) VALUES (1, 'c', 'p', 'r', '{}')",
	} {
		var refused *pgconn.PgError
		if _, err := b.relay.Exec(t.Context(), statement); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

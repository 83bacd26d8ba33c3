package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// bundle is a ledger's tables with one running crawl of one page.
type bundle struct {
	*store.Store
	db    *testkit.DB
	crawl store.Crawl
	// superuser is for looking and for what no role may do.
	superuser *pgxpool.Pool
	// pool opens a further pool of the role, made as the bundle's own.
	pool func(t *testing.T) *pgxpool.Pool
}

// everyWay runs a test over direct connections with prepared statements, and
// through a pooler in transaction mode without them (T44).
func everyWay(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	t.Run("direct", func(t *testing.T) {
		t.Parallel()
		test(t, setup(t))
	})
	t.Run("T44 pooled", func(t *testing.T) {
		t.Parallel()
		test(t, setupPooled(t))
	})
}

func setup(t *testing.T) *bundle {
	t.Helper()
	db := testkit.Postgres(t)
	return begin(t, db, func(t *testing.T) *pgxpool.Pool { return db.Pool(t, "ledger") })
}

func setupPooled(t *testing.T) *bundle {
	t.Helper()
	db := testkit.Postgres(t)
	url := testkit.Pooler(t, db.URL("ledger"))
	return begin(t, db, func(t *testing.T) *pgxpool.Pool {
		pool, err := pg.Open(context.Background(), config.Database{URL: url, MaxConns: 20, Mode: "exec"}, "test")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	})
}

func begin(t *testing.T, db *testkit.DB, pool func(t *testing.T) *pgxpool.Pool) *bundle {
	t.Helper()
	b := &bundle{Store: store.New(pool(t)), db: db, superuser: db.Pool(t, "superuser"), pool: pool}
	alice := "alice"
	b.crawl = store.Crawl{
		ID: uuid.New(), OrgID: "acme", SubmittedBy: &alice, Seeds: []string{"http://a/"}, Scope: "same-origin", ScopeKeys: []string{"http://a"},
		MaxDepth: 2, MaxPages: 30, HostParallelism: 4, StartedAt: start,
	}
	if err := b.StartCrawl(t.Context(), b.crawl, []store.Page{{URL: "http://a/", Host: "a"}}, start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	return b
}

// submit records n tasks with manifests and returns what would admit them.
func (b *bundle) submit(t *testing.T, n int) []store.Admission {
	t.Helper()
	var submissions []store.NewSubmission
	var admissions []store.Admission
	for i := range n {
		key := fmt.Sprintf("%d.result.json", i)
		task := uuid.New()
		submissions = append(submissions, store.NewSubmission{TaskID: task, CorrelationID: "c", SubmittedAt: start, ManifestKey: &key})
		admissions = append(admissions, store.Admission{
			TaskID: task, OrgID: "acme", SubmittedBy: b.crawl.SubmittedBy, Bucket: "browserhive", Key: fmt.Sprintf("%s.wacz", task),
			SourceURL: "http://a/", Labels: []string{"x", `quote " and , comma`}, CapturedAt: start, ETag: "e", Size: 1,
		})
	}
	if err := b.RecordSubmissions(t.Context(), b.crawl, submissions); err != nil {
		t.Fatal(err)
	}
	return admissions
}

// count asks the superuser, who sees the outbox as well.
func (b *bundle) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := b.superuser.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// whole fails unless every archive has its one outbox row, and the other way round.
func (b *bundle) whole(t *testing.T, archives int) {
	t.Helper()
	const pairs = `SELECT count(*) FROM ledger.archives a JOIN outbox.fga_outbox o ON o.payload->'writes'->0->>'object' = 'archive:' || a.id`
	for name, got := range map[string]int{
		"archives":    b.count(t, "SELECT count(*) FROM ledger.archives"),
		"outbox rows": b.count(t, "SELECT count(*) FROM outbox.fga_outbox"),
		"pairs":       b.count(t, pairs),
	} {
		if got != archives {
			t.Errorf("%d %s, want %d", got, name, archives)
		}
	}
}

func TestT07RowAndOutboxTogether(t *testing.T) { everyWay(t, rowAndOutboxTogether) }

func rowAndOutboxTogether(t *testing.T, b *bundle) {
	admissions := b.submit(t, 250)
	results, err := b.Admit(t.Context(), admissions)
	if err != nil || len(results) != 250 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	b.whole(t, 250)
	if n := b.count(t, "SELECT count(*) FROM ledger.capture_holes"); n != 0 {
		t.Errorf("%d holes are left", n)
	}
	if n := b.count(t, `SELECT count(*) FROM outbox.fga_outbox WHERE payload = jsonb_build_object('deletes', '[]'::jsonb, 'writes', jsonb_build_array(
		jsonb_build_object('user', 'capture_job:' || $1, 'relation', 'parent', 'object', 'archive:' || $2),
		jsonb_build_object('user', 'organization:acme', 'relation', 'parent', 'object', 'capture_job:' || $1),
		jsonb_build_object('user', 'user:alice', 'relation', 'owner', 'object', 'capture_job:' || $1)))`, results[7].TaskID.String(), results[7].ArchiveID.String()); n != 1 {
		t.Error("the payload is not the one that the design names")
	}
	if n := b.count(t, "SELECT count(*) FROM ledger.archives WHERE labels = ARRAY['x', 'quote \" and , comma']"); n != 250 {
		t.Errorf("%d rows have their labels", n)
	}
	again, err := b.Admit(t.Context(), admissions)
	if err != nil || again[0].New || again[0].ArchiveID != results[0].ArchiveID {
		t.Errorf("admitting again: %+v, %v", again[0], err)
	}
	b.whole(t, 250)
}

// Many callers with the same captures in different orders: each capture is
// admitted by one of them, and nobody runs into a deadlock.
func TestRacingAdmissionsQueueOnce(t *testing.T) { everyWay(t, racingAdmissionsQueueOnce) }

func racingAdmissionsQueueOnce(t *testing.T, b *bundle) {
	admissions := b.submit(t, testkit.Soak(60, 500))
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for caller := range 6 {
		wg.Go(func() {
			mine := append(append([]store.Admission{}, admissions[caller*7:]...), admissions[:caller*7]...)
			results, err := b.Admit(t.Context(), mine)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range results {
				if r.New {
					fresh++
				}
			}
		})
	}
	wg.Wait()
	if fresh != len(admissions) {
		t.Errorf("%d calls say that they wrote an archive, want %d", fresh, len(admissions))
	}
	b.whole(t, len(admissions))
}

// One that Postgres refuses keeps nobody else of its batch out, and leaves
// nothing of itself.
func TestABadAdmissionStandsAlone(t *testing.T) { everyWay(t, badAdmissionStandsAlone) }

func badAdmissionStandsAlone(t *testing.T, b *bundle) {
	admissions := b.submit(t, 5)
	admissions[2].Size = 0
	results, err := b.Admit(t.Context(), admissions)
	if err != nil || results[2].Err == nil || results[2].New || !results[4].New {
		t.Fatalf("%+v, %v", results, err)
	}
	b.whole(t, 4)
	if n := b.count(t, "SELECT count(*) FROM ledger.capture_holes WHERE task_id = $1", admissions[2].TaskID); n != 1 {
		t.Error("the refused capture has lost its hole")
	}
}

func TestOneRunningCrawl(t *testing.T) { everyWay(t, oneRunningCrawl) }

func oneRunningCrawl(t *testing.T, b *bundle) {
	second := b.crawl
	second.ID, second.OrgID = uuid.New(), "beta"
	err := b.StartCrawl(t.Context(), second, []store.Page{{URL: "http://b/", Host: "b"}}, start)
	var running *store.RunningError
	if !errors.As(err, &running) || running.ID != b.crawl.ID || running.OrgID != "acme" || !running.StartedAt.Equal(start) {
		t.Fatalf("got %v", err)
	}
	if n := b.count(t, "SELECT count(*) FROM ledger.crawl_pages"); n != 1 {
		t.Errorf("%d pages: the refused crawl left some", n)
	}
}

func TestOverdueIsClosedOnceByWhicheverReplica(t *testing.T) { everyWay(t, overdueIsClosedOnce) }

func overdueIsClosedOnce(t *testing.T, b *bundle) {
	if closed, err := b.CloseOverdue(t.Context(), start.Add(time.Hour)); err != nil || len(closed) != 0 {
		t.Fatalf("closed %v at the deadline itself, %v", closed, err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	closed := 0
	for range 8 {
		replica := store.New(b.pool(t))
		wg.Go(func() {
			ids, err := replica.CloseOverdue(t.Context(), start.Add(time.Hour+time.Second))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			closed += len(ids)
		})
	}
	wg.Wait()
	c, err := b.Crawl(t.Context(), b.crawl.ID)
	if err != nil {
		t.Fatal(err)
	}
	if closed != 1 || c.State != "failed" || *c.StopReason != "failed" || *c.Error != "level 0 is overdue: not reported by 2026-11-30T13:00:00Z" {
		t.Errorf("closed %d times, %+v", closed, c)
	}
}

// A report that commits while the closing waits for its crawl has come in time.
func TestAReportAcrossItsDeadlineCounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tx, err := b.superuser.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for _, statement := range []string{
		"SELECT id FROM ledger.crawls WHERE id = $1 FOR NO KEY UPDATE",
		"UPDATE ledger.crawl_levels SET replied_at = now() WHERE crawl_id = $1",
	} {
		if _, err := tx.Exec(t.Context(), statement, b.crawl.ID); err != nil {
			t.Fatal(err)
		}
	}
	type result struct {
		closed []uuid.UUID
		err    error
	}
	done := make(chan result, 1)
	go func() {
		closed, err := b.CloseOverdue(t.Context(), start.Add(2*time.Hour))
		done <- result{closed, err}
	}()
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		n := b.count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
		return n == 1, "the closing does not wait for the report"
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil || len(r.closed) != 0 {
		t.Fatalf("closed %v, error %v", r.closed, r.err)
	}
}

func TestALevelIsClaimedOnce(t *testing.T) { everyWay(t, levelIsClaimedOnce) }

func levelIsClaimedOnce(t *testing.T, b *bundle) {
	var wg sync.WaitGroup
	claims := make(chan bool, 8)
	for range 8 {
		wg.Go(func() {
			mine, err := b.ClaimLevel(t.Context(), b.crawl.ID, 0)
			if err != nil {
				t.Error(err)
			}
			claims <- mine
		})
	}
	wg.Wait()
	close(claims)
	n := 0
	for mine := range claims {
		if mine {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d replicas dispatch one level", n)
	}
	if level, err := b.PendingLevel(t.Context()); err != nil || level != nil {
		t.Errorf("still pending: %v, %v", level, err)
	}
}

// The role tries what it must not be able to do.
func TestTheRoleCanDoNoMoreThanItsWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool := b.db.Pool(t, "ledger")
	for _, sql := range []string{
		"DELETE FROM archives", "UPDATE archives SET object_key = 'x'", "DELETE FROM crawls", "DELETE FROM crawl_pages", "DELETE FROM crawl_levels",
		"UPDATE capture_submissions SET org_id = 'beta'", "DELETE FROM capture_submissions", "UPDATE crawls SET org_id = 'beta'",
		"UPDATE crawl_pages SET url = 'x'", "UPDATE capture_targets SET url = 'x'", "TRUNCATE archives", "DROP TABLE archives",
		"ALTER TABLE archives ADD COLUMN owner text", "CREATE TABLE mine (a int)", "CREATE SCHEMA mine",
		"SELECT id FROM outbox.fga_outbox", "UPDATE outbox.fga_outbox SET attempts = 1", "DELETE FROM outbox.fga_outbox",
		"INSERT INTO outbox.fga_outbox (payload, processed_at) VALUES ('{}', now())", "SELECT 1 FROM feed.as_issued_polls", "SELECT 1 FROM signer.issued_urls",
	} {
		_, err := pool.Exec(t.Context(), sql)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || (refused.Code != "42501" && refused.Code != "42P01") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestReadyNamesTheVersion(t *testing.T) {
	t.Parallel()
	if err := setup(t).Ready(context.Background()); err != nil {
		t.Error(err)
	}
}

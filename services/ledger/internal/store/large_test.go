package store_test

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// A level of 10,000 pages is written in statements over sets: each step stays
// far below the limit of one statement, whatever else the machine does.
func TestALevelOfTenThousand(t *testing.T) {
	t.Parallel()
	const n = 10000
	db := testkit.Postgres(t)
	s := store.New(db.Pool(t, "ledger"))
	pages := make([]store.Page, n)
	results := make([]store.PageResult, n)
	submissions := make([]store.NewSubmission, n)
	for i := range pages {
		url, key := fmt.Sprintf(`http://h%d.org/a\b/%d`, i%50, i), fmt.Sprint(i)
		pages[i] = store.Page{URL: url, Host: fmt.Sprintf("h%d.org", i%50)}
		task, finished := uuid.New(), start.Add(time.Duration(i)*time.Second)
		results[i] = store.PageResult{URL: url, State: "captured", TaskID: &task, FinishedAt: &finished}
		submissions[i] = store.NewSubmission{TaskID: task, CorrelationID: "c", SubmittedAt: start, ManifestKey: &key}
	}
	c := store.Crawl{ID: uuid.New(), OrgID: "acme", Seeds: []string{"x"}, Scope: "same-host", ScopeKeys: []string{"x"}, MaxDepth: 1, MaxPages: n, HostParallelism: 1, StartedAt: start}
	step := func(name string, work func() error) {
		began := time.Now()
		if err := work(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Logf("%s: %s", name, time.Since(began))
	}
	step("starting", func() error { return s.StartCrawl(t.Context(), c, pages, start.Add(time.Hour)) })
	step("frontier", func() error {
		frontier, err := s.Frontier(t.Context(), c.ID, 0)
		if err == nil && (len(frontier) != n || frontier[7].URL != pages[7].URL || frontier[7].LastFinishedAt != nil) {
			err = fmt.Errorf("%d pages, %+v", len(frontier), frontier[7])
		}
		return err
	})
	step("submissions", func() error { return s.RecordSubmissions(t.Context(), c, submissions) })
	step("report", func() error {
		reply, err := s.FinishLevel(t.Context(), store.LevelReport{CrawlID: c.ID, Results: results, ScopeKeys: c.ScopeKeys, Now: start, Deadline: start})
		if err == nil && (reply.StopReason == nil || *reply.StopReason != store.StopCompleted) {
			err = fmt.Errorf("%+v", reply)
		}
		return err
	})
	got, err := s.Crawl(t.Context(), c.ID)
	if err != nil || got.PagesCaptured != n || got.PagesDiscovered != n {
		t.Errorf("%d captured of %d, %v", got.PagesCaptured, got.PagesDiscovered, err)
	}
	// Politeness survives crawls: the next one is told when each host was last
	// finished.
	c.ID = uuid.New()
	if err := s.StartCrawl(t.Context(), c, pages[:1], start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	frontier, err := s.Frontier(t.Context(), c.ID, 0)
	if err != nil || frontier[0].LastFinishedAt == nil || !frontier[0].LastFinishedAt.Equal(start.Add(9950*time.Second)) {
		t.Errorf("%+v, %v", frontier, err)
	}
}

// counter counts statements.
type counter struct{ n atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// No query per row: what a level's report takes is as many statements for a
// hundred pages as for two, the second time as well.
func TestStatementsDoNotGrowWithRows(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	settings, err := pgxpool.ParseConfig(db.URL("ledger"))
	if err != nil {
		t.Fatal(err)
	}
	statements := &counter{}
	settings.ConnConfig.Tracer = statements
	pool, err := pgxpool.NewWithConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := begin(t, db, func(*testing.T) *pgxpool.Pool { return pool })
	steps := func(n int) map[string]int64 {
		took := map[string]int64{}
		step := func(name string, work func() error) {
			before := statements.n.Load()
			if err := work(); err != nil {
				t.Fatalf("%s of %d: %v", name, n, err)
			}
			took[name] = statements.n.Load() - before
		}
		if _, err := b.CloseCrawl(t.Context(), b.crawl.ID, store.StopStopped, nil, start); err != nil {
			t.Fatal(err)
		}
		b.crawl.ID, b.crawl.MaxPages = uuid.New(), 1000
		pages, next := make([]store.Page, n), make([]store.Page, n)
		results := make([]store.PageResult, n)
		for i := range n {
			pages[i] = store.Page{URL: fmt.Sprintf("http://h%d/", i), Host: fmt.Sprintf("h%d", i)}
			next[i] = store.Page{URL: fmt.Sprintf("http://h%d/next", i), Host: fmt.Sprintf("h%d", i)}
			results[i] = store.PageResult{URL: pages[i].URL, State: "captured", FinishedAt: &start}
		}
		step("starting", func() error { return b.StartCrawl(t.Context(), b.crawl, pages, start.Add(time.Hour)) })
		var admissions []store.Admission
		step("submissions", func() error { admissions = b.submit(t, n); return nil })
		var tasks []uuid.UUID
		for _, a := range admissions {
			tasks = append(tasks, a.TaskID)
		}
		step("open", func() error { _, err := b.OpenSubmissions(t.Context(), tasks); return err })
		for _, name := range []string{"admitting", "admitting again"} {
			step(name, func() error { _, err := b.Admit(t.Context(), admissions); return err })
		}
		step("closing holes", func() error { _, err := b.CloseHoles(t.Context(), tasks); return err })
		report := store.LevelReport{CrawlID: b.crawl.ID, Results: results, Next: next, ScopeKeys: b.crawl.ScopeKeys, Now: start, Deadline: start.Add(time.Hour)}
		for _, name := range []string{"report", "report again"} {
			step(name, func() error { _, err := b.FinishLevel(t.Context(), report); return err })
		}
		step("frontier", func() error { _, err := b.Frontier(t.Context(), b.crawl.ID, 1); return err })
		return took
	}
	few, many := steps(2), steps(100)
	if !maps.Equal(few, many) {
		t.Errorf("statements of two pages %v, of a hundred %v", few, many)
	}
}

package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

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

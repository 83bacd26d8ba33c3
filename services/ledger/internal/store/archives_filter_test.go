package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/testkit"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

var beforeAll = Position{CapturedAt: latest, ID: uuid.Max}

// shelf is a ledger's archives, and the same in memory.
type shelf struct {
	*Store
	pool *pgxpool.Pool
	all  []Archive
	// ofCrawl are the tasks of one crawl.
	crawl   uuid.UUID
	ofCrawl map[uuid.UUID]bool
}

// newShelf makes n archives of a few hosts, with many ties in time.
func newShelf(t *testing.T, n int) *shelf {
	t.Helper()
	db := testkit.Postgres(t)
	s := &shelf{pool: db.Pool(t, "superuser"), crawl: uuid.New(), ofCrawl: map[uuid.UUID]bool{}}
	s.Store = New(db.Pool(t, "ledger"))
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(nil, s.StartCrawl(ctx, Crawl{ID: s.crawl, OrgID: "acme", Seeds: []string{"http://a/"}, Scope: "same-origin", ScopeKeys: []string{"http://a"}, MaxPages: 30, HostParallelism: 1, StartedAt: noon},
		[]Page{{URL: "http://a/", Host: "a"}}, noon))
	random := rand.New(rand.NewPCG(1, 2))
	var rows, submissions [][]any
	for i := range n {
		a := Archive{ID: uuid.New(), TaskID: uuid.New(), CapturedAt: noon.Add(time.Duration(random.IntN(n/2)-n/4) * time.Second), ObjectKey: fmt.Sprint(i), Labels: []string{}}
		a.SourceUrl = fmt.Sprintf("http://h%d.example/%d", i%100, i%1000)
		switch i % 1000 {
		case 7:
			a.SourceUrl = fmt.Sprintf("https://Me@H7.example:8443?%d", i)
		case 8:
			a.SourceUrl = "http://[2001:DB8::1]:80/x"
		case 9: // longer than what an index holds, and different behind that only
			a.SourceUrl = "http://long.example/" + strings.Repeat("é", 3000) + fmt.Sprint(i%2000)
			a.Labels = append(a.Labels, strings.Repeat("l", 9000)+fmt.Sprint(i%2000))
		}
		if i%50 == 3 {
			a.Labels = append(a.Labels, "rare", "x, y")
		}
		yes, no := true, false
		a.WaczComplete = []*bool{&yes, &yes, &no, nil}[random.IntN(4)]
		var crawl *uuid.UUID
		if i%97 == 0 {
			s.ofCrawl[a.TaskID] = true
			crawl = &s.crawl
		}
		submissions = append(submissions, []any{a.TaskID, "acme", crawl})
		s.all = append(s.all, a)
		rows = append(rows, []any{a.ID, a.TaskID, "browserhive", a.ObjectKey, a.SourceUrl, a.Labels, a.WaczComplete, a.CapturedAt, "etag", int64(1)})
	}
	columns := []string{"id", "task_id", "bucket", "object_key", "source_url", "labels", "wacz_complete", "captured_at", "object_etag", "object_size"}
	must(s.pool.CopyFrom(ctx, pgx.Identifier{"ledger", "archives"}, columns, pgx.CopyFromRows(rows)))
	must(s.pool.CopyFrom(ctx, pgx.Identifier{"ledger", "capture_submissions"}, []string{"task_id", "org_id", "crawl_id"}, pgx.CopyFromRows(submissions)))
	must(s.pool.Exec(ctx, "ANALYZE ledger.archives, ledger.capture_submissions"))
	return s
}

// filterCase is a filter, what it lets pass in so many words, and the index that
// answers it.
type filterCase struct {
	filter ArchiveFilter
	passes func(Archive) bool
	index  string
}

func (s *shelf) cases() map[string]filterCase {
	long := s.all[9]
	ids := []uuid.UUID{s.all[1].ID, s.all[2].ID, s.all[5].ID, uuid.New()}
	from, to := noon.Add(-time.Minute), noon.Add(time.Minute)
	return map[string]filterCase{
		"nothing":   {ArchiveFilter{}, func(Archive) bool { return true }, "archives_listing_idx"},
		"url":       {ArchiveFilter{URL: &s.all[3].SourceUrl}, func(a Archive) bool { return a.SourceUrl == s.all[3].SourceUrl }, "archives_source_url_idx"},
		"long url":  {ArchiveFilter{URL: &long.SourceUrl}, func(a Archive) bool { return a.SourceUrl == long.SourceUrl }, "archives_source_url_idx"},
		"prefix":    {ArchiveFilter{URLPrefix: new("http://h3.example/10")}, func(a Archive) bool { return strings.HasPrefix(a.SourceUrl, "http://h3.example/10") }, "archives_source_url_idx"},
		"wildcards": {ArchiveFilter{URLPrefix: new("http://h3.example/%_")}, func(Archive) bool { return false }, "archives_source_url_idx"},
		"long prefix": {
			ArchiveFilter{URLPrefix: &long.SourceUrl}, func(a Archive) bool { return strings.HasPrefix(a.SourceUrl, long.SourceUrl) }, "archives_source_url_idx",
		},
		"empty prefix": {ArchiveFilter{URLPrefix: new("")}, func(Archive) bool { return true }, ""},
		"host":         {ArchiveFilter{Host: new("H7.EXAMPLE")}, func(a Archive) bool { return strings.Contains(strings.ToLower(a.SourceUrl), "h7.example") }, "archives_host_idx"},
		"address":      {ArchiveFilter{Host: new("[2001:db8::1]")}, func(a Archive) bool { return strings.Contains(a.SourceUrl, "2001") }, "archives_host_idx"},
		"no such host": {ArchiveFilter{Host: new("example")}, func(Archive) bool { return false }, "archives_host_idx"},
		"label":        {ArchiveFilter{Label: new("x, y")}, func(a Archive) bool { return slices.Contains(a.Labels, "x, y") }, "archives_labels_idx"},
		"long label":   {ArchiveFilter{Label: &long.Labels[0]}, func(a Archive) bool { return slices.Contains(a.Labels, long.Labels[0]) }, "archives_labels_idx"},
		"part of a label": {
			ArchiveFilter{Label: new("x")}, func(Archive) bool { return false }, "archives_labels_idx",
		},
		"from and to": {
			ArchiveFilter{From: &from, To: &to},
			func(a Archive) bool { return !a.CapturedAt.Before(from) && !a.CapturedAt.After(to) }, "archives_listing_idx",
		},
		"complete":   {ArchiveFilter{Complete: CompletenessTrue}, func(a Archive) bool { return a.WaczComplete != nil && *a.WaczComplete }, "archives_complete_idx"},
		"incomplete": {ArchiveFilter{Complete: CompletenessFalse}, func(a Archive) bool { return a.WaczComplete != nil && !*a.WaczComplete }, "archives_incomplete_idx"},
		"unknown":    {ArchiveFilter{Complete: CompletenessUnknown}, func(a Archive) bool { return a.WaczComplete == nil }, "archives_completeness_unknown_idx"},
		"crawl":      {ArchiveFilter{Crawl: &s.crawl}, func(a Archive) bool { return s.ofCrawl[a.TaskID] }, "capture_submissions_crawl_id_idx"},
		"among":      {ArchiveFilter{Among: ids}, func(a Archive) bool { return slices.Contains(ids, a.ID) }, "archives_pkey"},
		"among none": {ArchiveFilter{Among: []uuid.UUID{}}, func(Archive) bool { return false }, ""},
		"all at once": {
			ArchiveFilter{URLPrefix: new("http://h3."), Host: new("h3.example"), Label: new("rare"), From: &from, To: &to, Complete: CompletenessTrue, Among: ids},
			func(a Archive) bool {
				return strings.HasPrefix(a.SourceUrl, "http://h3.") && slices.Contains(a.Labels, "rare") && a.WaczComplete != nil && *a.WaczComplete &&
					!a.CapturedAt.Before(from) && !a.CapturedAt.After(to) && slices.Contains(ids, a.ID)
			}, "",
		},
	}
}

// expected is what a filter lets pass, in its order.
func (s *shelf) expected(tc filterCase) []uuid.UUID {
	var rows []Archive
	for _, a := range s.all {
		if tc.passes(a) {
			rows = append(rows, a)
		}
	}
	slices.SortFunc(rows, func(a, b Archive) int {
		newest := cmp.Or(b.CapturedAt.Compare(a.CapturedAt), cmp.Compare(b.ID.String(), a.ID.String()))
		if tc.filter.Near == nil {
			return newest
		}
		near := *tc.filter.Near
		distance := func(a Archive) float64 { return math.Abs(float64(a.CapturedAt.UnixMicro() - near.UnixMicro())) }
		if order := cmp.Compare(distance(a), distance(b)); order != 0 {
			return order
		}
		if order := a.CapturedAt.Compare(b.CapturedAt); order != 0 || !a.CapturedAt.After(near) {
			return cmp.Or(order, newest)
		}
		return -newest
	})
	ids := make([]uuid.UUID, len(rows))
	for i, a := range rows {
		ids[i] = a.ID
	}
	return ids
}

// Every filter lets pass what it says, in the order that it says, page by page,
// with ties that no page loses or repeats.
func TestFilters(t *testing.T) {
	t.Parallel()
	s := newShelf(t, 3000)
	for name, tc := range s.cases() {
		for _, near := range []*time.Time{nil, new(noon), new(noon.Add(-time.Hour)), new(earliest), new(latest)} {
			tc, name, after := tc, name, beforeAll
			tc.filter.Near = near
			if near != nil {
				name += " near " + near.Format(time.DateTime)
				after = Position{CapturedAt: *near, ID: uuid.Max}
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var found []uuid.UUID
				for {
					rows, err := s.ListArchives(t.Context(), tc.filter, after, 101)
					if err != nil {
						t.Fatal(err)
					}
					for _, a := range rows {
						found = append(found, a.ID)
						after = Position{CapturedAt: a.CapturedAt, ID: a.ID}
					}
					if len(rows) < 101 {
						break
					}
				}
				if want := s.expected(tc); !slices.Equal(found, want) {
					t.Errorf("%d rows, want %d in that order", len(found), len(want))
				}
			})
		}
	}
}

// Every filter is answered by its index: in a ledger of many archives no page
// reads the table, nor sorts what does not fit into it.
func TestFiltersAreIndexBacked(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Soak(20_000, 200_000))
	for name, tc := range s.cases() {
		for _, near := range []*time.Time{nil, new(noon)} {
			tc.filter.Near = near
			plan := s.explain(t, tc.filter)
			if strings.Contains(plan, "Seq Scan on archives") && name != "empty prefix" {
				t.Errorf("%s (near %v): the table is read\n%s", name, near != nil, plan)
			}
			if !strings.Contains(plan, tc.index) {
				t.Errorf("%s (near %v): not by %s\n%s", name, near != nil, tc.index, plan)
			}
		}
	}
}

// explain returns the plan of a page, as the ledger's role gets it.
func (s *shelf) explain(t *testing.T, f ArchiveFilter) string {
	t.Helper()
	sql, args := f.statement(Position{CapturedAt: noon, ID: uuid.Max}, 51)
	rows, err := s.Store.pool.Query(context.Background(), "EXPLAIN "+sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func TestSuccessor(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"http://a/": "http://a0", "é": "ê", "a\U0010FFFF": "b", "\uD7FF": "\uE000", "": "", "\U0010FFFF": "",
	} {
		if got, ok := successor(prefix); got != want || ok != (want != "") {
			t.Errorf("after %q comes %q (%t), want %q", prefix, got, ok, want)
		}
	}
}

func TestAroundStaysWithinTheYears(t *testing.T) {
	t.Parallel()
	older, newer := around(latest, Position{CapturedAt: earliest, ID: uuid.Nil})
	if !older.CapturedAt.Equal(earliest) || !newer.CapturedAt.Equal(latest) {
		t.Errorf("%v and %v", older, newer)
	}
}

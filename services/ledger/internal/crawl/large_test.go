package crawl_test

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/crawl"
)

// peak runs work and returns by how much the live heap grew meanwhile, at most.
func peak(work func()) uint64 {
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	done := make(chan struct{})
	most := before.HeapAlloc
	var sampler sync.WaitGroup
	sampler.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
		}
	})
	work()
	close(done)
	sampler.Wait()
	return most - before.HeapAlloc
}

// A report of many results of which some pages hold many links: memory follows
// how many files are read at once, not how many there are. It runs alone, because
// it measures the process. Stated: 10,000 results, forty pages of 50,000 links; each result
// has a task of its own whose manifest was lost.
func TestALargeReportInBoundedMemory(t *testing.T) {
	links := testkit.Soak(10_000, 50_000)
	results, pages := testkit.Soak(1000, 10_000), 40
	budget := results
	s3 := testkit.Bucket(t)
	b := setupWith(t, s3, s3.Bucket, time.Minute, 5*time.Minute) // time is not what is measured
	var file bytes.Buffer
	file.WriteString(`{"finalUrl":"http://a.org/","links":[{"href":"http://a.org/0","rel":null}`)
	for i := range links - 1 {
		fmt.Fprintf(&file, `,{"href":"http://a.org/%s/%d","text":"a link of the usual length","rel":null}`, "some/folder/of/the/site/that/is/linked/from/everywhere", i)
	}
	file.WriteString(`]}`)
	location := b.put(t, "many.links.json", file.Bytes())

	level := func(pages int) (crawled uuid.UUID, grew uint64) {
		seeds, report := make([]string, results/2), make([]crawl.Result, results)
		lost := "the store did not take it"
		for i := range report {
			page := fmt.Sprintf("http://a.org/seed/%d", i)
			if i < len(seeds) {
				seeds[i] = page
			}
			report[i] = crawl.Result{URL: page, Status: "captured", TaskID: new(uuid.New()), ManifestError: &lost}
			if i < pages {
				report[i].LinksLocation = &location
			}
		}
		c := b.begin(t, crawl.Order{Seeds: seeds, MaxPages: new(int32(budget))})
		grew = peak(func() {
			reply, err := b.Report(t.Context(), c, 0, report)
			if err != nil || len(reply.Next) != budget-len(seeds) {
				t.Fatalf("%d next pages, %v", len(reply.Next), err)
			}
		})
		if n := b.count(t, "SELECT count(*) FROM ledger.capture_submissions WHERE crawl_id = $1 AND manifest_error = $2", c.ID, lost); n != results {
			t.Errorf("%d submissions of %d results", n, results)
		}
		if _, err := b.rows.CloseCrawl(t.Context(), c.ID, "stopped", nil, start); err != nil {
			t.Fatal(err)
		}
		return c.ID, grew
	}
	_, few := level(1)
	id, many := level(pages)
	c := b.crawl(t, id)
	if c.PagesDiscovered != int64(budget) || c.PagesCaptured != int64(results/2) || *c.LimitHit != "max_pages" {
		t.Errorf("%+v", c)
	}
	t.Logf("%d results; the heap grew by %d MiB for one page of %d links (%d MiB), by %d MiB for %d", results, few>>20, links, file.Len()>>20, many>>20, pages)
	// As many files as are read at once, each read whole and decoded, and as
	// much again that waits for the collector.
	if limit := uint64(4*4*file.Len() + 24<<20); many > limit {
		t.Errorf("the heap grew by %d MiB, want at most %d MiB whatever the number of pages", many>>20, limit>>20)
	}
}

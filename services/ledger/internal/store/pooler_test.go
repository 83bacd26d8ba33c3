package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// Twenty clients at work while columns are added to what they read and write,
// over direct connections and through a pooler: nobody is told of it.
func TestT44ColumnsAreAddedWhileTwentyClientsWork(t *testing.T) { everyWay(t, columnsAreAdded) }

func columnsAreAdded(t *testing.T, b *bundle) {
	rounds := testkit.Soak(6, 60)
	const clients = 20
	admissions := b.submit(t, clients*rounds)
	altered := make(chan struct{})
	var group sync.WaitGroup
	for client := range clients {
		mine := admissions[client*rounds : (client+1)*rounds]
		group.Go(func() {
			for i, a := range mine {
				if i == rounds/2 {
					<-altered
				}
				if err := work(t.Context(), b, a); err != nil {
					t.Errorf("client %d, round %d: %v", client, i, err)
				}
			}
		})
	}
	superuser := b.superuser
	for _, table := range []string{"ledger.archives", "ledger.capture_submissions", "ledger.capture_holes", "ledger.crawls", "ledger.crawl_levels", "ledger.crawl_pages", "outbox.fga_outbox"} {
		if _, err := superuser.Exec(t.Context(), "ALTER TABLE "+table+" ADD COLUMN later text"); err != nil {
			t.Error(err)
		}
	}
	close(altered)
	group.Wait()
	b.whole(t, len(admissions))
}

// work is a bit of everything that a replica does for one capture.
func work(ctx context.Context, b *bundle, a store.Admission) error {
	open, err := b.OpenSubmissions(ctx, []uuid.UUID{a.TaskID})
	if err != nil || len(open) != 1 {
		return fmt.Errorf("%d open submissions: %w", len(open), err)
	}
	admitted, err := b.Admit(ctx, []store.Admission{a})
	if err != nil || !admitted[0].New {
		return fmt.Errorf("admitted %+v: %w", admitted, err)
	}
	location, err := b.ArchiveLocation(ctx, admitted[0].ArchiveID)
	if err != nil || location.ObjectKey != a.Key {
		return fmt.Errorf("location %+v: %w", location, err)
	}
	if _, err := b.Holes(ctx, nil, 10); err != nil {
		return err
	}
	if _, err := b.Frontier(ctx, b.crawl.ID, 0); err != nil {
		return err
	}
	if _, err := b.PendingLevel(ctx); err != nil {
		return err
	}
	crawls, err := b.ListCrawls(ctx, store.CrawlFilter{Orgs: []string{"acme"}, Limit: 10})
	if err != nil || len(crawls) != 1 || !crawls[0].StartedAt.Equal(start) {
		return fmt.Errorf("crawls %+v: %w", crawls, err)
	}
	return nil
}

// What is asked again and again (the holes, the level to dispatch, what of a
// level is open) costs what there is to find, also while a long transaction
// elsewhere keeps every row alive that was ever there. Stated: 1,000,000.
func TestT30AskingForWorkStaysCheap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	superuser := b.superuser
	reader, err := superuser.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.Background()) }()
	if _, err := reader.Exec(t.Context(), "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM ledger.capture_holes"); err != nil {
		t.Fatal(err)
	}
	n := testkit.Soak(20_000, 1_000_000)
	for _, sql := range []string{
		"INSERT INTO ledger.capture_submissions (task_id, org_id, manifest_key) SELECT gen_random_uuid(), 'acme', i::text FROM generate_series(1, $1) i",
		"INSERT INTO ledger.capture_holes (task_id) SELECT task_id FROM ledger.capture_submissions LIMIT $1",
		"DELETE FROM ledger.capture_holes WHERE ctid <> ALL(ARRAY(SELECT ctid FROM ledger.capture_holes LIMIT $1 / 200))",
	} {
		if _, err := superuser.Exec(t.Context(), sql, n); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	var tasks []uuid.UUID
	for _, ask := range []struct {
		name string
		call func() error
	}{
		{"holes", func() error {
			holes, err := b.Holes(t.Context(), nil, 100)
			tasks = tasks[:0]
			for _, h := range holes {
				tasks = append(tasks, h.TaskID)
			}
			if err == nil && len(holes) != 100 {
				err = fmt.Errorf("%d holes", len(holes))
			}
			return err
		}},
		{"open submissions", func() error { _, err := b.OpenSubmissions(t.Context(), tasks); return err }},
		{"pending level", func() error { _, err := b.PendingLevel(t.Context()); return err }},
	} {
		best := time.Hour
		for range 5 {
			began := time.Now()
			if err := ask.call(); err != nil {
				t.Fatalf("%s: %v", ask.name, err)
			}
			best = min(best, time.Since(began))
		}
		t.Logf("%s with %d rows dead or done: %s", ask.name, n, best)
		if best > 500*time.Millisecond {
			t.Errorf("%s take %s", ask.name, best)
		}
	}
}

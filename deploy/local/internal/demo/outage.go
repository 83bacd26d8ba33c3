package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/muniment/muniment/deploy/local/internal/stack"
)

// outagePage is a page of its own for this step, whose manifest comes late too.
const outagePage = stack.LatePage + "?outage"

// outage is step 5: the engine is away while an archive is admitted.
func (w *walk) outage(ctx context.Context) error {
	id, c, err := w.runCrawl(ctx, 0, w.stack.Site()+outagePage)
	if err != nil {
		return err
	}
	if err := equal("the crawl's state", c.State, "succeeded"); err != nil {
		return err
	}
	capture, err := w.capture(ctx, id, outagePage)
	if err != nil {
		return err
	}
	w.sayf("OpenFGA is stopped")
	if err := w.stack.Set.Stop("openfga"); err != nil {
		return err
	}
	if err := w.releaseManifests(ctx); err != nil {
		return err
	}
	if err := w.reconcile(ctx); err != nil {
		return err
	}
	n, err := w.rowsOf(ctx, capture)
	if err != nil {
		return err
	}
	w.sayf("the admission committed without it: %d archive", n)
	if err := equal("archives admitted during the outage", n, 1); err != nil {
		return err
	}
	if err := w.waits(ctx, capture, 4*time.Second); err != nil {
		return err
	}
	w.sayf("OpenFGA is started again")
	if err := w.stack.Engines.OpenFGA.Restart(ctx, w.stack.Set); err != nil {
		return err
	}
	if err := w.drained(ctx, 30*time.Second); err != nil {
		return err
	}
	w.sayf("the row is delivered by itself")
	if err := w.once(ctx, capture); err != nil {
		return err
	}
	return w.sees(ctx, capture)
}

// waits watches the capture's row for a while: it must stay as it is.
func (w *walk) waits(ctx context.Context, c capture, watch time.Duration) error {
	for end := time.Now().Add(watch); time.Now().Before(end); {
		var attempts int
		var delivered, dead bool
		err := w.db.QueryRow(ctx, `SELECT attempts, processed_at IS NOT NULL, dead_at IS NOT NULL
			FROM outbox.fga_outbox WHERE keys @> ARRAY[$1]`, "capture_job:"+c.task).Scan(&attempts, &delivered, &dead)
		if err != nil {
			return fmt.Errorf("reading the row in the outbox: %w", err)
		}
		if attempts != 0 || delivered || dead {
			return fmt.Errorf("the row in the outbox has %d attempts, delivered %v, set aside %v; it should wait untouched", attempts, delivered, dead)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
	w.sayf("for %s its row waits in the outbox: no attempt spent, nothing lost", watch)
	return nil
}

// sees waits until alice sees the capture's archive.
func (w *walk) sees(ctx context.Context, c capture) error {
	err := until(ctx, 15*time.Second, func(ctx context.Context) (bool, string, error) {
		all, err := w.list(ctx, alice)
		found := slices.ContainsFunc(all, func(a archive) bool { return a.TaskID == c.task })
		return found, fmt.Sprintf("alice sees %d archives, the new one is not among them", len(all)), err
	})
	if err == nil {
		w.sayf("GET /api/archives as alice: the new archive is there")
	}
	return err
}

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/muniment/muniment/deploy/local/internal/engines"
	"github.com/muniment/muniment/deploy/local/internal/stack"
	reconcilerv1 "github.com/muniment/muniment/pkg/pb/muniment/reconciler/v1"
)

// capture is a submission as the ledger keeps it.
type capture struct {
	task, url, manifest string
	depth               int
}

// racedPage is a second page whose manifest comes late: a page of its own to the
// crawl, the same to the site.
const racedPage = stack.LatePage + "?raced"

// late is step 4. The captures of two pages were reported before their manifests
// were there. One is the reconciler's alone; at the other it meets a repeated
// level report.
func (w *walk) late(ctx context.Context) error {
	left, err := w.capture(ctx, w.crawlID, stack.LatePage)
	if err != nil {
		return err
	}
	raced, err := w.capture(ctx, w.crawlID, racedPage)
	if err != nil {
		return err
	}
	for _, c := range []capture{left, raced} {
		n, err := w.rowsOf(ctx, c)
		if err != nil {
			return err
		}
		w.sayf("%s was reported as capture %s; its manifest is not there: %d archives of it", c.url, c.task, n)
		if err := equal("archives of a late capture", n, 0); err != nil {
			return err
		}
	}
	if err := w.releaseManifests(ctx); err != nil {
		return err
	}
	var both sync.WaitGroup
	var reconciled, reported error
	both.Go(func() { reconciled = w.reconcile(ctx) })
	both.Go(func() { reported = w.reportAgain(ctx, raced) })
	both.Wait()
	if err := errors.Join(reconciled, reported); err != nil {
		return err
	}
	err = until(ctx, 20*time.Second, func(ctx context.Context) (bool, string, error) {
		n, err := w.rowsOf(ctx, left)
		return n == 1, fmt.Sprintf("%d archives of the late capture", n), err
	})
	if err != nil {
		return err
	}
	if err := w.reconcile(ctx); err != nil { // once more, and nothing happens
		return err
	}
	return errors.Join(w.once(ctx, left), w.once(ctx, raced))
}

// once says that a capture has one archive and one row in the outbox.
func (w *walk) once(ctx context.Context, c capture) error {
	archives, err := w.rowsOf(ctx, c)
	if err != nil {
		return err
	}
	queued, err := w.number(ctx, "SELECT count(*) FROM outbox.fga_outbox WHERE keys @> ARRAY[$1]", "capture_job:"+c.task)
	if err != nil {
		return err
	}
	w.sayf("now there is %d archive of %s, and %d row in the outbox", archives, c.url, queued)
	if err := equal("archives of the late capture", archives, 1); err != nil {
		return err
	}
	return equal("outbox rows of the late capture", queued, 1)
}

// capture finds a page's submission of a crawl.
func (w *walk) capture(ctx context.Context, crawlID, page string) (capture, error) {
	var c capture
	err := w.db.QueryRow(ctx, `
		SELECT s.task_id::text, p.url, s.manifest_key, p.depth
		  FROM ledger.capture_submissions s JOIN ledger.crawl_pages p ON p.task_id = s.task_id
		 WHERE s.crawl_id = $1 AND p.url = $2 AND s.manifest_key IS NOT NULL`,
		crawlID, w.stack.Site()+page).Scan(&c.task, &c.url, &c.manifest, &c.depth)
	if err != nil {
		return capture{}, fmt.Errorf("looking for the submission of %s: %w", page, err)
	}
	return c, nil
}

func (w *walk) rowsOf(ctx context.Context, c capture) (int, error) {
	return w.number(ctx, "SELECT count(*) FROM ledger.archives WHERE task_id = $1::uuid", c.task)
}

// releaseManifests lets the stand-in write the manifests that it held back.
func (w *walk) releaseManifests(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.stack.BrowserHive()+"/standin/manifests/release", nil)
	if err != nil {
		return fmt.Errorf("releasing the manifests: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("releasing the manifests: %w", err)
	}
	defer resp.Body.Close()
	var answer json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("releasing the manifests (%s): %w", resp.Status, err)
	}
	w.sayf("BrowserHive writes the manifest now: %s", answer)
	return nil
}

// reconcile asks the reconciler to look at every hole now.
func (w *walk) reconcile(ctx context.Context) error {
	conn, err := w.stack.Dial("reconciler")
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	reply, err := reconcilerv1.NewReconcilerServiceClient(conn).RunOnce(ctx, &reconcilerv1.RunOnceRequest{})
	if err != nil {
		return fmt.Errorf("asking the reconciler: %w", err)
	}
	w.sayf("reconciler, RunOnce: %d holes seen, %d admitted, %d not yet", reply.GetSeen(), reply.GetAdmitted(), reply.GetNotYet())
	return nil
}

// reportAgain reports the capture's level once more, as a flow whose last step
// runs twice does.
func (w *walk) reportAgain(ctx context.Context, c capture) error {
	report := map[string]any{
		"depth": c.depth,
		"results": []map[string]any{{
			"url": c.url, "status": "captured", "taskId": c.task,
			"manifestLocation": "s3://" + engines.Bucket + "/" + c.manifest,
		}},
	}
	var answer json.RawMessage
	if err := w.call(ctx, windmill, http.MethodPost, "/api/crawls/"+w.crawlID+"/pages", report, http.StatusOK, &answer); err != nil {
		return err
	}
	w.sayf("POST /api/crawls/%s/pages, the level once more: %s", w.crawlID, answer)
	return nil
}

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// registered is step 2: rows in the ledger, nothing left in the outbox, tuples
// in the engine.
func (w *walk) registered(ctx context.Context) error {
	tasks, err := w.number(ctx, "SELECT count(*) FROM ledger.capture_submissions WHERE crawl_id = $1", w.crawlID)
	if err != nil {
		return err
	}
	archives, err := w.number(ctx, "SELECT count(*) FROM ledger.archives JOIN ledger.capture_submissions USING (task_id) WHERE crawl_id = $1", w.crawlID)
	if err != nil {
		return err
	}
	w.sayf("ledger: %d captures were reported, %d archives are registered", tasks, archives)
	if archives == 0 || archives > tasks {
		return fmt.Errorf("%d archives of %d captures", archives, tasks)
	}
	if err := w.drained(ctx, 20*time.Second); err != nil {
		return err
	}
	sent, err := w.number(ctx, "SELECT count(*) FROM outbox.fga_outbox WHERE processed_at IS NOT NULL")
	if err != nil {
		return err
	}
	w.sayf("outbox: %d rows delivered, none waits", sent)
	if err := equal("delivered rows, one an archive", sent, archives); err != nil {
		return err
	}
	return w.tuplesOf(ctx)
}

// drained waits until no row of the outbox waits, and none was set aside.
func (w *walk) drained(ctx context.Context, within time.Duration) error {
	return until(ctx, within, func(ctx context.Context) (bool, string, error) {
		waiting, err := w.number(ctx, "SELECT count(*) FROM outbox.fga_outbox WHERE processed_at IS NULL")
		return waiting == 0, fmt.Sprintf("%d rows of the outbox are not delivered", waiting), err
	})
}

// tuplesOf reads every archive's tuples back from the engine.
func (w *walk) tuplesOf(ctx context.Context) error {
	rows, err := w.db.Query(ctx, "SELECT id::text, task_id::text FROM ledger.archives JOIN ledger.capture_submissions USING (task_id) WHERE crawl_id = $1", w.crawlID)
	if err != nil {
		return fmt.Errorf("reading the archives: %w", err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var id, task string
		if err := rows.Scan(&id, &task); err != nil {
			return fmt.Errorf("reading the archives: %w", err)
		}
		for _, want := range []tuple{
			{User: "capture_job:" + task, Relation: "parent", Object: "archive:" + id},
			{User: "organization:acme", Relation: "parent", Object: "capture_job:" + task},
			{User: "user:alice", Relation: "owner", Object: "capture_job:" + task},
		} {
			if err := w.stored(ctx, want); err != nil {
				return err
			}
			n++
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading the archives: %w", err)
	}
	w.sayf("OpenFGA: %d tuples read back, three an archive", n)
	return nil
}

type tuple struct {
	User     string `json:"user"`
	Relation string `json:"relation"`
	Object   string `json:"object"`
}

// stored reads one tuple from the engine's own API.
func (w *walk) stored(ctx context.Context, want tuple) error {
	body, err := json.Marshal(map[string]any{"tuple_key": want})
	if err != nil {
		return fmt.Errorf("encoding the question: %w", err)
	}
	url := w.stack.Engines.OpenFGA.APIURL + "/stores/" + w.stack.StoreID + "/read"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making the question: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking OpenFGA: %w", err)
	}
	defer resp.Body.Close()
	var answer struct {
		Tuples []struct {
			Key tuple `json:"key"`
		} `json:"tuples"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("reading OpenFGA's answer (%s): %w", resp.Status, err)
	}
	if len(answer.Tuples) != 1 || answer.Tuples[0].Key != want {
		return fmt.Errorf("OpenFGA does not hold %s %s %s", want.User, want.Relation, want.Object)
	}
	return nil
}

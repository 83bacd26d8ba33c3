package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/fga"
)

// auditWait is how long queued rows may take to arrive before the comparison.
const auditWait = 30 * time.Second

// auditArchives are the archives with what their tuples are made of.
const auditArchives = `
	SELECT a.id::text, a.task_id::text, s.org_id, coalesce(s.submitted_by, '')
	  FROM ledger.archives AS a
	  JOIN ledger.capture_submissions AS s USING (task_id)`

// audited are the relations that follow from the ledger alone. What operators
// grant (organizations) and what is shared (viewers) is not judged.
var audited = map[string]bool{
	"archive parent": true, "capture_job parent": true, "capture_job owner": true, "capture_job caretaker": true,
}

// difference is what the engine lacks of the ledger's tuples, and what it holds
// that does not follow from the ledger.
type difference struct {
	lacking, tooMuch map[fga.Key]bool
}

func (d difference) none() bool { return len(d.lacking) == 0 && len(d.tooMuch) == 0 }

// runOutboxAudit compares twice, with what is queued delivered before each: what
// was admitted or deleted during the first comparison is not on both lists.
func runOutboxAudit(ctx context.Context, sh shell, args []string) error {
	flags := flag.NewFlagSet("outbox audit", flag.ContinueOnError)
	flags.SetOutput(sh.out)
	repair := flags.Bool("repair", false, "queue what is lacking, and the removal of what is too much")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return errors.New("audit takes --repair and nothing else")
	}
	engine, err := sh.engine()
	if err != nil {
		return err
	}
	ledger, err := sh.connect(ctx, "MUNIMENT_LEDGER_DATABASE_URL")
	if err != nil {
		return err
	}
	defer func() { _ = ledger.Close(context.WithoutCancel(ctx)) }()

	if err := settle(ctx, sh); err != nil {
		return err
	}
	found, err := compare(ctx, engine, ledger)
	if err != nil {
		return err
	}
	if !found.none() {
		if err := settle(ctx, sh); err != nil {
			return err
		}
		again, err := compare(ctx, engine, ledger)
		if err != nil {
			return err
		}
		found = found.and(again)
	}
	if err := sayDifference(sh, found); err != nil {
		return err
	}
	switch {
	case found.none():
		return nil
	case !*repair:
		return fmt.Errorf("%d tuples lack and %d are too much; --repair queues the difference", len(found.lacking), len(found.tooMuch))
	}
	return queueRepair(ctx, sh, ledger, found)
}

// settle waits until nothing is queued: a difference would only mean that the
// relay is behind.
func settle(ctx context.Context, sh shell) error {
	reply, err := drain(ctx, sh, auditWait)
	if err != nil {
		return err
	}
	if !reply.GetDrained() {
		return fmt.Errorf("%d rows still wait in the outbox; the comparison would count them as lacking", reply.GetWaiting())
	}
	return nil
}

// compare reads the engine first and the ledger second.
func compare(ctx context.Context, engine *fga.Client, ledger *pgx.Conn) (difference, error) {
	held := map[fga.Key]bool{}
	err := engine.Read(ctx, fga.Key{}, func(t fga.Tuple) error {
		kind, _, _ := strings.Cut(t.Object, ":")
		if audited[kind+" "+t.Relation] {
			held[t.Key()] = true
		}
		return nil
	})
	if err != nil {
		return difference{}, err
	}
	expected, err := expectedTuples(ctx, ledger)
	if err != nil {
		return difference{}, err
	}
	found := difference{lacking: map[fga.Key]bool{}, tooMuch: held}
	for key := range expected {
		if held[key] {
			delete(held, key)
		} else {
			found.lacking[key] = true
		}
	}
	return found, nil
}

func expectedTuples(ctx context.Context, ledger *pgx.Conn) (map[fga.Key]bool, error) {
	rows, err := ledger.Query(ctx, auditArchives)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	expected := map[fga.Key]bool{}
	var archive, task, organization, submitter string
	_, err = pgx.ForEachRow(rows, []any{&archive, &task, &organization, &submitter}, func() error {
		for _, t := range fga.CaptureTuples(archive, task, organization, submitter) {
			expected[t.Key()] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	return expected, nil
}

func (d difference) and(other difference) difference {
	both := difference{lacking: map[fga.Key]bool{}, tooMuch: map[fga.Key]bool{}}
	for key := range d.lacking {
		if other.lacking[key] {
			both.lacking[key] = true
		}
	}
	for key := range d.tooMuch {
		if other.tooMuch[key] {
			both.tooMuch[key] = true
		}
	}
	return both
}

func sayDifference(sh shell, found difference) error {
	var text strings.Builder
	for key := range found.lacking {
		fmt.Fprintf(&text, "lacks: %s %s %s\n", key.User, key.Relation, key.Object)
	}
	for key := range found.tooMuch {
		fmt.Fprintf(&text, "too much: %s %s %s\n", key.User, key.Relation, key.Object)
	}
	fmt.Fprintf(&text, "lacking: %d\ntoo much: %d\n", len(found.lacking), len(found.tooMuch))
	_, err := fmt.Fprint(sh.out, text.String())
	return err
}

// queueRepair goes the way of every change: through the outbox, a row for each
// object, so that it stands in order with what is queued for it meanwhile.
func queueRepair(ctx context.Context, sh shell, ledger *pgx.Conn, found difference) error {
	type change struct {
		Writes  []fga.Key `json:"writes,omitempty"`
		Deletes []fga.Key `json:"deletes,omitempty"`
	}
	changes := map[string]*change{}
	at := func(object string) *change {
		if changes[object] == nil {
			changes[object] = &change{}
		}
		return changes[object]
	}
	for key := range found.lacking {
		at(key.Object).Writes = append(at(key.Object).Writes, key)
	}
	for key := range found.tooMuch {
		at(key.Object).Deletes = append(at(key.Object).Deletes, key)
	}
	for _, c := range changes {
		payload, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("spelling a repair: %w", err)
		}
		if _, err := ledger.Exec(ctx, "INSERT INTO outbox.fga_outbox (payload) VALUES ($1)", payload); err != nil {
			return fmt.Errorf("queuing a repair: %w", err)
		}
	}
	_, err := fmt.Fprintf(sh.out, "queued: %d rows\n", len(changes))
	return err
}

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

// maxDifferences bounds what one audit reports and repairs; the rest is for the
// next one.
const maxDifferences = 10_000

// difference is what the engine lacks of the ledger's tuples, and what it holds
// that does not follow from the ledger.
type difference struct {
	lacking, tooMuch map[auditKey]fga.Tuple
	// more says that there are differences beyond maxDifferences.
	more bool
	// byHand counts viewers of living archives that the ledger's shares do not
	// know: operators grant them. They are not judged.
	byHand int
}

func (d *difference) none() bool { return len(d.lacking) == 0 && len(d.tooMuch) == 0 }

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
	case found.none() && !found.more:
		return nil
	case !*repair:
		return fmt.Errorf("%d tuples lack and %d are too much; --repair queues the difference", len(found.lacking), len(found.tooMuch))
	}
	if err := queueRepair(ctx, sh, ledger, found); err != nil {
		return err
	}
	if found.more {
		return fmt.Errorf("there are more than these %d differences; run the audit again once they are delivered", maxDifferences)
	}
	return nil
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

// compare reads the engine first and the ledger second. Both go through files,
// split by object, so that memory does not grow with the archive.
func compare(ctx context.Context, engine *fga.Client, ledger *pgx.Conn) (found difference, err error) {
	held, err := newSpill()
	if err != nil {
		return difference{}, err
	}
	defer func() { err = errors.Join(err, held.close()) }()
	expected, err := newSpill()
	if err != nil {
		return difference{}, err
	}
	defer func() { err = errors.Join(err, expected.close()) }()

	err = engine.Read(ctx, fga.Key{}, func(t fga.Tuple) error {
		// What operators grant on organizations does not follow from the ledger.
		if kind, _, _ := strings.Cut(t.Object, ":"); kind == "archive" || kind == "capture_job" {
			return held.add(t)
		}
		return nil
	})
	if err != nil {
		return difference{}, err
	}
	if err := expectedTuples(ctx, ledger, expected.add); err != nil {
		return difference{}, err
	}
	found = difference{lacking: map[auditKey]fga.Tuple{}, tooMuch: map[auditKey]fga.Tuple{}}
	for part := range spillParts {
		if err := found.judge(expected, held, part); err != nil {
			return difference{}, err
		}
	}
	return found, nil
}

// judge compares one part. Tuples of an archive that was deleted are too much,
// whatever they say: the ledger expects none of its object.
func (d *difference) judge(expected, held *spill, part int) error {
	want, lives, known := map[auditKey]fga.Tuple{}, map[string]bool{}, map[fga.Key]bool{}
	err := expected.each(part, func(t fga.Tuple) error {
		lives[t.Object], known[t.Key()] = true, true
		key, err := auditKeyOf(t)
		want[key] = t
		return err
	})
	if err != nil {
		return err
	}
	err = held.each(part, func(t fga.Tuple) error {
		key, err := auditKeyOf(t)
		if err != nil {
			return err
		}
		_, expects := want[key]
		switch {
		case expects:
			delete(want, key)
		case t.Relation == "viewer" && lives[t.Object] && !known[t.Key()]:
			d.byHand++
		default:
			d.note(d.tooMuch, key, t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for key, t := range want {
		d.note(d.lacking, key, t)
	}
	return nil
}

func (d *difference) note(in map[auditKey]fga.Tuple, key auditKey, t fga.Tuple) {
	if len(d.lacking)+len(d.tooMuch) == maxDifferences {
		d.more = true
		return
	}
	in[key] = t
}

// and keeps what is in both.
func (d *difference) and(other difference) difference {
	both := difference{lacking: map[auditKey]fga.Tuple{}, tooMuch: map[auditKey]fga.Tuple{}, more: d.more || other.more, byHand: other.byHand}
	for key, t := range d.lacking {
		if _, again := other.lacking[key]; again {
			both.lacking[key] = t
		}
	}
	for key, t := range d.tooMuch {
		if _, again := other.tooMuch[key]; again {
			both.tooMuch[key] = t
		}
	}
	return both
}

func sayDifference(sh shell, found difference) error {
	var text strings.Builder
	for key := range found.lacking {
		fmt.Fprintf(&text, "lacks: %s\n", key)
	}
	for key := range found.tooMuch {
		fmt.Fprintf(&text, "too much: %s\n", key)
	}
	if found.byHand > 0 {
		fmt.Fprintf(&text, "viewers granted by hand, not judged: %d\n", found.byHand)
	}
	fmt.Fprintf(&text, "lacking: %d\ntoo much: %d\n", len(found.lacking), len(found.tooMuch))
	_, err := fmt.Fprint(sh.out, text.String())
	return err
}

// queueRepair goes the way of every change: through the outbox, a row for each
// object, so that it stands in order with what is queued for it meanwhile.
// Within a row the relay deletes first, so a grant with a wrong end is replaced.
func queueRepair(ctx context.Context, sh shell, ledger *pgx.Conn, found difference) error {
	type change struct {
		Writes  []fga.Tuple `json:"writes,omitempty"`
		Deletes []fga.Key   `json:"deletes,omitempty"`
	}
	changes := map[string]*change{}
	at := func(object string) *change {
		if changes[object] == nil {
			changes[object] = &change{}
		}
		return changes[object]
	}
	for _, t := range found.lacking {
		at(t.Object).Writes = append(at(t.Object).Writes, t)
	}
	for _, t := range found.tooMuch {
		at(t.Object).Deletes = append(at(t.Object).Deletes, t.Key())
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

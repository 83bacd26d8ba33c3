// Package demo walks through the main job on a running stack, from outside:
// over the gateway's HTTP, the operator's gRPC methods, SQL, and the engines'
// own interfaces. It prints what it asks and what comes back, and ends with the
// first thing that is not as it should be.
package demo

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/deploy/local/internal/stack"
)

// walk is one run of the demo. The steps leave in it what later ones go on with.
type walk struct {
	stack   *stack.Stack
	out     io.Writer
	db      *pgxpool.Pool // as superuser: the demo looks, it does not act
	gateway int           // calls so far; they go over the gateways in turn

	crawlID  string
	archives []archive // alice's, as she listed them
}

// steps are the demo's parts, in their order.
var steps = []struct {
	title string
	run   func(w *walk, ctx context.Context) error
}{
	{"alice of acme crawls a site", (*walk).crawl},
	{"the archives are in the ledger, their tuples in OpenFGA", (*walk).registered},
	{"alice reads, mallory finds nothing, nobody gets 401", (*walk).read},
	{"a manifest that comes late is registered by the reconciler, once", (*walk).late},
	{"OpenFGA goes away and comes back", (*walk).outage},
	{"the feed archiver reads two feeds, twice", (*walk).feeds},
}

// Run walks through all steps.
func Run(ctx context.Context, s *stack.Stack, out io.Writer) error {
	db, err := pgxpool.New(ctx, s.Engines.Postgres.URL(s.Database))
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	defer db.Close()
	w := &walk{stack: s, out: out, db: db}
	begun := time.Now()
	var took []time.Duration
	for i, step := range steps {
		fmt.Fprintf(out, "\n%d. %s\n", i+1, step.title)
		start := time.Now()
		if err := step.run(w, ctx); err != nil {
			return fmt.Errorf("demo step %d (%s): %w", i+1, step.title, err)
		}
		took = append(took, time.Since(start))
	}
	fmt.Fprintf(out, "\nAll %d steps went as they should, in %s:\n", len(steps), time.Since(begun).Round(100*time.Millisecond))
	for i, step := range steps {
		fmt.Fprintf(out, "  %d. %-66s %6.1fs\n", i+1, step.title, took[i].Seconds())
	}
	return nil
}

// sayf prints what is asked or what came back.
func (w *walk) sayf(format string, args ...any) {
	fmt.Fprintf(w.out, "   "+format+"\n", args...)
}

// until asks again until the answer is the wanted one; state says what is
// waited for. It gives up after within, with the last state.
func until(ctx context.Context, within time.Duration, ask func(ctx context.Context) (done bool, state string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	last := "nothing came back"
	for {
		done, state, err := ask(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("not within %s: %s", within, last)
		case err != nil:
			return err
		case done:
			return nil
		}
		last = state
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s", within, last)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// number runs a query that counts.
func (w *walk) number(ctx context.Context, sql string, args ...any) (int, error) {
	var n int
	if err := w.db.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("asking the database: %w", err)
	}
	return n, nil
}

// equal is the demo's assertion.
func equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}

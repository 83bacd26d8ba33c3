package listing

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// checked is a stretch of rows and what the engine said of each.
type checked struct {
	rows    []store.Archive
	visible []bool
	// last says that no row follows.
	last bool
}

// byChecks fills the page by checking row after row. When the caller seems to
// see little, or turns out to, the engine's listing is tried once, unless it was
// (listed).
func (p *pager) byChecks(ctx context.Context, listed bool) (Page, error) {
	// The first stretch goes alone: whoever sees most of what there is has his
	// page after it, and nothing was asked in vain.
	rows, last, err := p.read(ctx, p.after, min(p.size, stretch))
	if err != nil {
		return Page{}, err
	}
	if !listed && !p.cut && len(rows) == stretch {
		listed, err = p.seemsSparse(ctx, rows)
		if err != nil {
			return Page{}, err
		}
		if listed {
			page, complete, err := p.byListing(ctx)
			if err != nil || complete {
				return page, err
			}
		}
	}
	first, err := p.ask(ctx, rows, last)
	if err != nil {
		return Page{}, err
	}
	done, more := p.take(first)
	for !done {
		if !listed && p.sparse() {
			listed = true
			page, complete, err := p.byListing(ctx)
			if err != nil || complete {
				return page, err
			}
		}
		done, more, err = p.checkAhead(ctx, !listed)
		if err != nil {
			return Page{}, err
		}
	}
	return p.page(more, false), nil
}

// seemsSparse guesses from the ledger's own rows what a stretch of checks would
// find, at the price of one of them: who asked for a capture, and for which
// organization. It is right about everybody but the recipients of many shares,
// whose listing is then found to be cut short, once, and it decides no more than
// what is asked first; who may view is the engine's to say.
func (p *pager) seemsSparse(ctx context.Context, rows []store.Archive) (bool, error) {
	tasks := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		tasks[i] = row.TaskID
	}
	requested, err := p.lister.archives.CountRequested(ctx, tasks, p.query.Organizations, p.query.Subject)
	if err != nil {
		return false, fmt.Errorf("guessing who may view a stretch of archives: %w", err)
	}
	return requested*sparseShare < len(rows), nil
}

// sparse says whether little of what was looked at is visible, by no less than a
// stretch.
func (p *pager) sparse() bool {
	return p.examined >= stretch && len(p.found)*sparseShare < p.examined
}

// take moves the visible rows of a stretch to the page. done says that the page
// is full or the list ended; more, that something may come after.
func (p *pager) take(c checked) (done, more bool) {
	for i, row := range c.rows {
		p.after = positionOf(row)
		p.examined++
		if !c.visible[i] {
			continue
		}
		p.found = append(p.found, row)
		if len(p.found) == p.size {
			return true, !c.last || i+1 < len(c.rows)
		}
	}
	return c.last, false
}

// read returns up to n rows after a position; last says that none follows.
func (p *pager) read(ctx context.Context, after store.Position, n int) (rows []store.Archive, last bool, err error) {
	rows, err = p.lister.archives.ListArchives(ctx, p.filter, after, int32(n+1))
	if err != nil {
		return nil, false, fmt.Errorf("reading a stretch of archives: %w", err)
	}
	if len(rows) <= n {
		return rows, true, nil
	}
	return rows[:n], false, nil
}

func (p *pager) ask(ctx context.Context, rows []store.Archive, last bool) (checked, error) {
	if len(rows) == 0 {
		return checked{last: last}, nil
	}
	queries := make([]fga.Query, len(rows))
	for i, row := range rows {
		queries[i] = p.query
		queries[i].Object = fga.Archive(row.ID.String())
	}
	visible, err := p.lister.engine.BatchCheck(ctx, queries)
	if err != nil {
		return checked{}, fmt.Errorf("checking a stretch of archives: %w", err)
	}
	return checked{rows: rows, visible: visible, last: last}, nil
}

// checkAhead checks stretch after stretch to the end of the page or of the list,
// the following ones while the current one is not answered yet. With
// stopIfSparse it returns undone once little turns out to be visible.
func (p *pager) checkAhead(ctx context.Context, stopIfSparse bool) (done, more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, groupCtx := errgroup.WithContext(ctx)
	// One stretch waits here and one in the reader's hand: no more than two are
	// asked about beyond the one that the page waits for.
	stretches := make(chan chan checked, ahead-1)
	group.Go(func() error {
		defer close(stretches)
		return p.readAhead(groupCtx, group, p.after, stretches)
	})
	stopped := false
	for answer := range stretches {
		select {
		case c := <-answer:
			done, more = p.take(c)
			stopped = done || stopIfSparse && p.sparse()
		case <-groupCtx.Done():
		}
		if stopped || groupCtx.Err() != nil {
			break
		}
	}
	cancel()
	if err := group.Wait(); err != nil && !stopped {
		return false, false, err
	}
	return done, more, nil
}

// readAhead reads stretches and has each checked on its own, in order.
func (p *pager) readAhead(ctx context.Context, group *errgroup.Group, after store.Position, stretches chan<- chan checked) error {
	for {
		rows, last, err := p.read(ctx, after, stretch)
		if err != nil {
			return err
		}
		answer := make(chan checked, 1)
		group.Go(func() error {
			c, err := p.ask(ctx, rows, last)
			if err == nil {
				answer <- c
			}
			return err
		})
		select {
		case stretches <- answer:
		case <-ctx.Done():
			return ctx.Err()
		}
		if last {
			return nil
		}
		after = positionOf(rows[len(rows)-1])
	}
}

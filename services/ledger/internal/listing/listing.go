// Package listing builds pages of the archives that a caller may view. The
// ledger knows the archives, the engine knows the rights, and a page is full as
// long as more visible archives exist, however sparse they are.
//
// There are two ways to a page. Checks: rows newest first, in stretches, each
// checked in one batch; it suits a caller who sees most of what there is. The
// engine's own listing: the ids that he may see, then their rows; it suits one
// who sees little of much, and is trusted only where the engine cannot have cut
// it short. The ledger's own rows give a guess of which it is (they know who asked
// for a capture), and the share that turns out to be visible decides how it goes
// on.
//
// What the engine could not answer is an error for the whole page: never a
// shorter page, never 'not visible'.
package listing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/identity"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

const (
	// stretch is how many rows one batch of checks covers: the engine's limit.
	stretch = 50
	// ahead is how many stretches may be checked beyond the one that is needed.
	ahead = 2
	// sparseShare: where fewer than one row in this many is visible, asking for
	// the visible ones costs less than asking about each.
	sparseShare = 4
)

type archives interface {
	ListArchives(ctx context.Context, f store.ArchiveFilter, after store.Position, limit int32) ([]store.Archive, error)
	CountRequested(ctx context.Context, tasks []uuid.UUID, organizations []string, subject string) (int, error)
}

type engine interface {
	BatchCheck(ctx context.Context, queries []fga.Query) ([]bool, error)
	ListObjects(ctx context.Context, q fga.Query, objectType string) (objects []string, complete bool, err error)
}

// Lister builds pages.
type Lister struct {
	archives archives
	engine   engine
	now      func() time.Time
}

// New returns a lister.
func New(archives archives, engine engine, now func() time.Time) *Lister {
	return &Lister{archives: archives, engine: engine, now: now}
}

// Request is what a caller asks for.
type Request struct {
	// After is where the page begins; nil for the newest.
	After *Cursor
	// Before, where set, leaves out what was captured then or later.
	Before *time.Time
	// Filter leaves out more, and says which order the list has.
	Filter store.ArchiveFilter
	// Size is how many archives make a full page, 1 to 200.
	Size int
}

// Page is a part of the list.
type Page struct {
	Archives []store.Archive
	// Next is where the following page begins; nil at the end of the list.
	Next *Cursor
}

// List returns one page of what the caller may view.
func (l *Lister) List(ctx context.Context, who identity.Identity, r Request) (Page, error) {
	p := pager{
		lister: l,
		size:   r.Size,
		query: fga.Query{
			Subject:       who.Subject,
			Organizations: who.Organizations,
			Relation:      "can_view",
			At:            nextMinute(l.now()),
		},
	}
	p.filter, p.after = r.begin()
	listed := false
	if r.After != nil {
		if p.filter.Near != nil || earlier(r.After.Position, p.after) {
			p.after = r.After.Position
		}
		listed, p.cut = r.After.listed, r.After.cut
	}
	if listed {
		// The page before this one was found by the engine's listing: what the
		// caller sees is sparse, and no stretch is needed to find that out again.
		page, complete, err := p.byListing(ctx)
		if err != nil || complete {
			return page, err
		}
	}
	return p.byChecks(ctx, listed)
}

// nextMinute rounds up, so that the engine sees the same question for a minute
// and its caches can answer, and so that a listing never shows a grant that
// signing, which is exact, would find expired.
func nextMinute(t time.Time) time.Time {
	minute := t.UTC().Truncate(time.Minute)
	if minute.Before(t) {
		minute = minute.Add(time.Minute)
	}
	return minute
}

// pager is one page in the making.
type pager struct {
	lister *Lister
	query  fga.Query
	filter store.ArchiveFilter
	size   int
	// after is the position that the last row looked at left.
	after store.Position
	// examined counts the rows that were checked, found holds the visible ones.
	examined int
	found    []store.Archive
	// cut says that the engine's listing was found to be cut short.
	cut bool
}

// byListing asks the engine for everything that the caller may view; complete
// is false where it may have stopped early, and then the page is none.
func (p *pager) byListing(ctx context.Context) (page Page, complete bool, err error) {
	objects, complete, err := p.lister.engine.ListObjects(ctx, p.query, "archive")
	if err != nil || !complete {
		p.cut = true
		return Page{}, false, err
	}
	ids := make([]uuid.UUID, 0, len(objects))
	for _, object := range objects {
		id, err := uuid.Parse(strings.TrimPrefix(object, "archive:"))
		if err != nil {
			// A tuple about what is no archive of ours: nothing to show for it.
			continue
		}
		ids = append(ids, id)
	}
	missing := p.size - len(p.found)
	among := p.filter
	among.Among = ids
	rows, err := p.lister.archives.ListArchives(ctx, among, p.after, int32(missing+1))
	if err != nil {
		return Page{}, false, fmt.Errorf("reading the listed archives: %w", err)
	}
	more := len(rows) > missing
	p.found = append(p.found, rows[:min(missing, len(rows))]...)
	return p.page(more, true), true, nil
}

// page closes the page. more says that something may come after it.
func (p *pager) page(more, listed bool) Page {
	page := Page{Archives: p.found}
	if more && len(p.found) > 0 {
		page.Next = &Cursor{Position: positionOf(p.found[len(p.found)-1]), listed: listed, cut: p.cut && !listed}
	}
	return page
}

package crawl

import (
	"crypto/sha256"

	"github.com/muniment/muniment/services/ledger/internal/store"
)

// frontier collects the pages that come next, in the order in which they are
// found, up to the budget. It holds no more than the crawl's pages and the
// budget, however many links there are.
type frontier struct {
	known  map[[32]byte]struct{}
	budget int
	next   []store.Page
	// over says that a page was left out for want of budget.
	over bool
}

// take adds a page that is new.
func (f *frontier) take(u pageURL) {
	hash := sha256.Sum256([]byte(u.text))
	if _, known := f.known[hash]; known {
		return
	}
	if len(f.next) >= f.budget {
		f.over = true
		return
	}
	f.known[hash] = struct{}{}
	f.next = append(f.next, store.Page{URL: u.text, Host: u.host})
}

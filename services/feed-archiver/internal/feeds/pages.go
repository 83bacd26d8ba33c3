package feeds

import (
	"crypto/sha256"
	"net/http"
	"net/url"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/fetch"
)

// pages watches over the pages of one read: not too many, none twice. A server
// that ignores a cursor or an offset serves its first page for ever, and a
// reader that took that for data would archive a part as the whole.
type pages struct {
	count  int
	asked  map[string]bool
	bodies map[[sha256.Size]byte]bool
}

func newPages() *pages {
	return &pages{asked: map[string]bool{}, bodies: map[[sha256.Size]byte]bool{}}
}

// begin notes that a page is about to be asked for.
func (p *pages) begin(u *url.URL, most int) error {
	// Both can only be said of a link in a page that was answered with 200.
	if p.asked[u.String()] {
		return &fetch.Error{Status: http.StatusOK, Reason: "a page led back to one that was already read"}
	}
	if p.count == most {
		return &fetch.Error{Status: http.StatusOK, Reason: "there are more pages than the limit of this source"}
	}
	p.asked[u.String()] = true
	p.count++
	return nil
}

// end notes what a page held. The items are compared, not the body: the
// envelope can differ from page to page.
func (p *pages) end(items []archive.Item, status int) error {
	if len(items) == 0 {
		return nil
	}
	hash := sha256.New()
	for _, item := range items {
		hash.Write(item.Body)
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	if p.bodies[sum] {
		return &fetch.Error{Status: status, Reason: "a page repeats one that was already read"}
	}
	p.bodies[sum] = true
	return nil
}

// following returns where to read on, or nil at the end.
func (p *pages) following(page Page, asked *url.URL) (*url.URL, error) {
	if page.Next == nil || (page.EmptyEnds && len(page.Items) == 0 && p.count > 1) {
		return nil, nil
	}
	return page.Next(asked)
}

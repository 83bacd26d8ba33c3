package listing

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/services/ledger/internal/store"
)

// newest is the position before all archives.
var newest = store.Position{CapturedAt: time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC), ID: uuid.Max}

// begin returns where the list begins, and the filter in the times that the
// database knows, which are microseconds.
func (r Request) begin() (store.ArchiveFilter, store.Position) {
	f := r.Filter
	if f.From != nil {
		from := microsUp(*f.From)
		f.From = &from
	}
	if f.To != nil {
		to := f.To.Truncate(time.Microsecond)
		f.To = &to
	}
	if r.Before != nil {
		last := microsUp(*r.Before).Add(-time.Microsecond)
		if f.To == nil || last.Before(*f.To) {
			f.To = &last
		}
	}
	switch {
	case f.Near != nil:
		moment := f.Near.Truncate(time.Microsecond)
		f.Near = &moment
		return f, store.Position{CapturedAt: moment, ID: uuid.Max}
	case f.To != nil:
		// The newest that may be in the list is where it begins.
		begin := store.Position{CapturedAt: *f.To, ID: uuid.Max}
		f.To = nil
		return f, begin
	}
	return f, newest
}

// microsUp rounds up to what the database knows.
func microsUp(t time.Time) time.Time {
	micros := t.Truncate(time.Microsecond)
	if micros.Before(t) {
		micros = micros.Add(time.Microsecond)
	}
	return micros
}

func positionOf(a store.Archive) store.Position {
	return store.Position{CapturedAt: a.CapturedAt, ID: a.ID}
}

// earlier says whether a leaves less of the list than b.
func earlier(a, b store.Position) bool {
	if !a.CapturedAt.Equal(b.CapturedAt) {
		return a.CapturedAt.Before(b.CapturedAt)
	}
	return bytes.Compare(a.ID[:], b.ID[:]) < 0
}

// Cursor is where a page begins: a place between two rows, so that what is
// admitted meanwhile moves nothing.
type Cursor struct {
	store.Position
	// listed remembers that the engine's own listing found the page before.
	listed bool
	// cut remembers that it was cut short, so that nobody guesses again.
	cut bool
}

const (
	tokenVersion = 1
	tokenBytes   = 1 + 1 + 8 + 16

	// What the second byte says of the page before.
	foundByListing  = 1
	foundListingCut = 2
)

// ErrToken says that a page token is none of ours.
var ErrToken = errors.New("is not a page token of this service")

// Token spells the cursor for callers, to whom it is opaque.
func (c Cursor) Token() string {
	b := make([]byte, 0, tokenBytes)
	b = append(b, tokenVersion, 0)
	switch {
	case c.listed:
		b[1] = foundByListing
	case c.cut:
		b[1] = foundListingCut
	}
	b = binary.BigEndian.AppendUint64(b, uint64(c.CapturedAt.UnixMicro()))
	b = append(b, c.ID[:]...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseToken reads a token that a caller gave back.
func ParseToken(token string) (Cursor, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != tokenBytes || b[0] != tokenVersion || b[1] > foundListingCut {
		return Cursor{}, ErrToken
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(b[2:10]))).UTC()
	if at.Year() < 1 || at.Year() > 9999 {
		return Cursor{}, ErrToken
	}
	return Cursor{Position: store.Position{CapturedAt: at, ID: uuid.UUID(b[10:])}, listed: b[1] == foundByListing, cut: b[1] == foundListingCut}, nil
}

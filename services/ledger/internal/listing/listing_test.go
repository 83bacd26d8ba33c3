package listing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/muniment/muniment/services/ledger/internal/listing"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

func clock() time.Time { return now }

// every returns the engine's word: each nth archive is visible.
func every(n, of int) *words {
	w := &words{visible: func(id uuid.UUID) bool { return number(id)%n == 0 }}
	for i := 0; i < of; i += n {
		w.listed = append(w.listed, idOf(i))
	}
	return w
}

func number(id uuid.UUID) int { return int(id[13])<<16 | int(id[14])<<8 | int(id[15]) }

// walk pages through the whole list. Every page but the last must be full.
func walk(t *testing.T, l *listing.Lister, r listing.Request) []int {
	t.Helper()
	var found []int
	for pages := 0; ; pages++ {
		require.Less(t, pages, 10_000, "the list has no end")
		page, err := l.List(t.Context(), alice, r)
		require.NoError(t, err)
		for _, a := range page.Archives {
			found = append(found, number(a.ID))
		}
		if page.Next == nil {
			return found
		}
		require.Len(t, page.Archives, r.Size, "a page with a successor is full")
		cursor, err := listing.ParseToken(page.Next.Token())
		require.NoError(t, err)
		r.After = &cursor
	}
}

func multiples(n, of int) []int {
	var all []int
	for i := 0; i < of; i += n {
		all = append(all, i)
	}
	return all
}

func TestPagesAreFullHoweverSparse(t *testing.T) {
	t.Parallel()
	const total = 1000
	for _, share := range []int{1, 2, 3, 4, 5, 100, 999, 5000} {
		for _, size := range []int{7, 49, 50, 51, 200} {
			for _, trusted := range []bool{true, false} {
				for _, requested := range []int{total, 60, 0} { // what the guess says, right or wrong
					t.Run(fmt.Sprintf("1 in %d, pages of %d, trusted listing %v, %d requested", share, size, trusted, requested), func(t *testing.T) {
						t.Parallel()
						r, w := newRows(total), every(share, total)
						r.requested, w.complete = requested, trusted
						require.Equal(t, multiples(share, total), walk(t, listing.New(r, w, clock), listing.Request{Size: size}))
					})
				}
			}
		}
	}
}

func TestNothingVisible(t *testing.T) {
	t.Parallel()
	for _, total := range []int{0, 1, 50, 51, 1000} {
		w := &words{visible: func(uuid.UUID) bool { return false }, complete: true}
		page, err := listing.New(newRows(total), w, clock).List(t.Context(), alice, listing.Request{Size: 50})
		require.NoError(t, err)
		require.Empty(t, page.Archives)
		require.Nil(t, page.Next)
	}
}

// Whoever sees most of what there is costs one statement and one batch.
func TestDensePageCostsOneBatch(t *testing.T) {
	t.Parallel()
	r, w := newRows(10_000), every(1, 10_000)
	page, err := listing.New(r, w, clock).List(t.Context(), alice, listing.Request{Size: 50})
	require.NoError(t, err)
	require.Len(t, page.Archives, 50)
	checks, listings := w.counts()
	require.Equal(t, []int{1, 0, 1}, []int{checks, listings, r.reads})
}

// Whoever asked for little of what there is costs one listing and no check; from
// a quarter on, checks.
func TestGuess(t *testing.T) {
	t.Parallel()
	for requested, want := range map[int][]int{0: {0, 1, 2}, 12: {0, 1, 2}, 13: {1, 0, 1}} {
		r, w := newRows(10_000), every(1, 50)
		r.requested, w.complete = requested, true
		page, err := listing.New(r, w, clock).List(t.Context(), alice, listing.Request{Size: 50})
		require.NoError(t, err)
		require.Len(t, page.Archives, 50)
		checks, listings := w.counts()
		require.Equal(t, want, []int{checks, listings, r.reads}, "%d requested", requested)
	}
}

// Whoever sees much by shares is guessed wrong once: the listing is cut short, and
// later pages begin with checks. A short stretch is not worth a guess.
func TestAWrongGuessIsMadeOnce(t *testing.T) {
	t.Parallel()
	r, w := newRows(1000), every(1, 1000)
	r.requested, w.complete = 0, false
	require.Equal(t, multiples(1, 1000), walk(t, listing.New(r, w, clock), listing.Request{Size: 50}))
	checks, listings := w.counts()
	require.Equal(t, []int{20, 1}, []int{checks, listings})
	_, err := listing.New(r, w, clock).List(t.Context(), alice, listing.Request{Size: 49})
	require.NoError(t, err)
	checks, listings = w.counts()
	require.Equal(t, []int{21, 1}, []int{checks, listings})
}

// Whoever turns out to see little of much costs one batch and one listing, and
// later pages no batch at all.
func TestSparsePageCostsOneListing(t *testing.T) {
	t.Parallel()
	r, w := newRows(10_000), every(100, 10_000)
	w.complete = true
	l := listing.New(r, w, clock)
	page, err := l.List(t.Context(), alice, listing.Request{Size: 50})
	require.NoError(t, err)
	require.Len(t, page.Archives, 50)
	checks, listings := w.counts()
	require.Equal(t, []int{1, 1, 2}, []int{checks, listings, r.reads})
	page, err = l.List(t.Context(), alice, listing.Request{Size: 50, After: page.Next})
	require.NoError(t, err)
	require.Len(t, page.Archives, 50)
	require.Nil(t, page.Next, "the listing knows the end")
	checks, listings = w.counts()
	require.Equal(t, []int{1, 2, 3}, []int{checks, listings, r.reads})
}

// A listing that may have been cut short is not used, and not asked twice.
func TestT10CutListingIsNotTrusted(t *testing.T) {
	t.Parallel()
	w := every(10, 3000)
	w.listed, w.complete = w.listed[100:], false // the engine's order is not ours
	page, err := listing.New(newRows(3000), w, clock).List(t.Context(), alice, listing.Request{Size: 50})
	require.NoError(t, err)
	require.Equal(t, 0, number(page.Archives[0].ID))
	require.Equal(t, 490, number(page.Archives[49].ID))
	_, listings := w.counts()
	require.Equal(t, 1, listings)
}

func TestAtMostTwoStretchesAhead(t *testing.T) {
	t.Parallel()
	w := every(2, 5000)
	w.gate = make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := listing.New(newRows(5000), w, clock).List(t.Context(), alice, listing.Request{Size: 200})
		done <- err
	}()
	// The first stretch went through alone; of the others, the one that is needed
	// and two more are asked about, and then nothing until it is answered.
	require.Eventually(t, func() bool { checks, _ := w.counts(); return checks == 4 }, 5*time.Second, time.Millisecond)
	for range 4 {
		w.gate <- struct{}{}
	}
	close(w.gate)
	require.NoError(t, <-done)
	require.LessOrEqual(t, w.most, 3)
	checks, _ := w.counts()
	require.LessOrEqual(t, checks, 8+2, "200 of every second row are 8 stretches")
}

// The choice follows what was seen: a caller who saw much at first and then
// nothing more is answered by the listing, too.
func TestListingIsTriedWhenItTurnsSparse(t *testing.T) {
	t.Parallel()
	w := &words{complete: true, visible: func(id uuid.UUID) bool { return number(id) < 30 || number(id) == 90_000 }, listed: []uuid.UUID{idOf(90_000)}}
	for i := range 30 {
		w.listed = append(w.listed, idOf(i))
	}
	page, err := listing.New(newRows(100_000), w, clock).List(t.Context(), alice, listing.Request{Size: 50})
	require.NoError(t, err)
	require.Len(t, page.Archives, 31)
	require.Nil(t, page.Next)
	checks, listings := w.counts()
	require.Equal(t, 1, listings)
	require.LessOrEqual(t, checks, 3+2)
}

func TestT50AnErrorIsNoAbsence(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*words{
		"first check":         {failCheck: 1, visible: func(uuid.UUID) bool { return true }},
		"later check":         {failCheck: 3, visible: func(id uuid.UUID) bool { return number(id)%2 == 0 }},
		"check after listing": {failCheck: 4, visible: func(uuid.UUID) bool { return false }},
		"listing":             {failList: true, complete: true, visible: func(uuid.UUID) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page, err := listing.New(newRows(1000), w, clock).List(t.Context(), alice, listing.Request{Size: 200})
			require.ErrorIs(t, err, errEngine)
			require.Empty(t, page.Archives)
		})
	}
}

func TestAFailingDatabaseIsAnError(t *testing.T) {
	t.Parallel()
	broken, guessless := newRows(60), newRows(60)
	broken.err, guessless.guessErr = errEngine, errEngine
	for _, r := range []*rows{broken, guessless} {
		_, err := listing.New(r, every(1, 10), clock).List(t.Context(), alice, listing.Request{Size: 50})
		require.ErrorIs(t, err, errEngine)
	}
}

func TestStableUnderInserts(t *testing.T) {
	t.Parallel()
	r, w := newRows(300), every(1, 300)
	l := listing.New(r, w, clock)
	first, err := l.List(t.Context(), alice, listing.Request{Size: 50})
	require.NoError(t, err)
	r.all = append([]store.Archive{{ID: idOf(1000), CapturedAt: now.Add(time.Hour)}}, r.all...)
	second, err := l.List(t.Context(), alice, listing.Request{Size: 50, After: first.Next})
	require.NoError(t, err)
	require.Equal(t, 50, number(second.Archives[0].ID))
}

func TestBeforeIsExclusive(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before time.Time
		first  int
	}{
		"at an archive's time":         {now.Add(-5 * time.Second), 6},
		"a nanosecond after":           {now.Add(-5*time.Second + time.Nanosecond), 5},
		"between":                      {now.Add(-5*time.Second - 500*time.Millisecond), 6},
		"in the future":                {now.Add(time.Hour), 0},
		"with a cursor that is before": {now.Add(-2 * time.Second), 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := listing.Request{Size: 1, Before: &tc.before}
			if tc.first == 8 {
				request.After = &listing.Cursor{Position: store.Position{CapturedAt: now.Add(-7 * time.Second), ID: idOf(7)}}
			}
			page, err := listing.New(newRows(20), every(1, 20), clock).List(t.Context(), alice, request)
			require.NoError(t, err)
			require.Equal(t, tc.first, number(page.Archives[0].ID))
		})
	}
}

// The engine is asked for one time, the next whole minute.
func TestListingsAskForTheNextMinute(t *testing.T) {
	t.Parallel()
	minute := now.Truncate(time.Minute)
	for at, want := range map[time.Time]time.Time{
		minute:                       minute,
		minute.Add(time.Nanosecond):  minute.Add(time.Minute),
		minute.Add(59 * time.Second): minute.Add(time.Minute),
	} {
		var asked []time.Time
		w := &asking{words: every(1, 10), at: &asked}
		_, err := listing.New(newRows(10), w, func() time.Time { return at }).List(t.Context(), alice, listing.Request{Size: 5})
		require.NoError(t, err)
		require.Equal(t, []time.Time{want}, asked)
	}
}

package store_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

func body(i int) store.Body {
	text := fmt.Sprintf(`{"i":%d}`, i)
	sum := sha256.Sum256([]byte(text))
	return store.Body{Key: store.Key{ProductID: fmt.Sprintf("p%05d", i), Hash: hex.EncodeToString(sum[:])}, Encoding: "json", Text: text}
}

// lookedUp is a read whose bodies were looked for and that is not stored yet.
type lookedUp struct {
	poll    store.Poll
	numbers []int
	known   []int64
	fresh   []store.Body
}

func lookUp(t *testing.T, s *store.Store, request string, numbers []int) lookedUp {
	t.Helper()
	keys := make([]store.Key, 0, len(numbers))
	for _, n := range numbers {
		keys = append(keys, body(n).Key)
	}
	known, err := s.Known(t.Context(), "demo", keys)
	if err != nil {
		t.Fatal(err)
	}
	seen := int64(len(numbers))
	r := lookedUp{poll: store.Poll{Source: "demo", Request: request, FetchedAt: time.Now(), HTTPStatus: 200, Seen: &seen}, numbers: numbers, known: known}
	for i, n := range numbers {
		if known[i] == 0 {
			r.fresh = append(r.fresh, body(n))
		}
	}
	return r
}

// record stores a read that held the numbered bodies, as the writer does.
func record(t *testing.T, s *store.Store, request string, numbers []int) store.Written {
	t.Helper()
	r := lookUp(t, s, request, numbers)
	w, err := s.Record(t.Context(), r.poll, r.known, r.fresh)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func held(t *testing.T, s *store.Store, poll int64) []int {
	t.Helper()
	items, err := s.HeldBy(t.Context(), poll, true)
	if err != nil {
		t.Fatal(err)
	}
	numbers := make([]int, 0, len(items))
	for _, i := range items {
		var n int
		if _, err := fmt.Sscanf(i.Text, `{"i":%d}`, &n); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}

// Whatever a feed does, every one of its polls can be told again: after each of
// many random reads, with 304s and a second request between them, all polls
// still say what they held.
func TestEveryPollCanBeToldAgain(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	s := store.New(db.Pool(t, "feed"))
	rng := rand.New(rand.NewPCG(1, 2))
	want := make(map[int64][]int)
	current := map[string][]int{"a": {}, "b": {}}
	for range testkit.Soak(60, 600) {
		request := []string{"a", "b"}[rng.IntN(2)]
		if rng.IntN(4) == 0 && len(current[request]) > 0 {
			w, err := s.Record(t.Context(), store.Poll{Source: "demo", Request: request, FetchedAt: time.Now(), HTTPStatus: 304}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			want[w.PollID] = current[request]
			continue
		}
		set := map[int]bool{}
		for _, n := range current[request] {
			set[n] = true
		}
		for range rng.IntN(8) {
			n := rng.IntN(40)
			set[n] = !set[n]
		}
		var numbers []int
		for n, in := range set {
			if in {
				numbers = append(numbers, n)
			}
		}
		slices.Sort(numbers)
		w := record(t, s, request, numbers)
		want[w.PollID], current[request] = numbers, numbers
	}
	for poll, numbers := range want {
		if got := held(t, s, poll); !slices.Equal(got, numbers) {
			t.Errorf("poll %d held %v, and is told as %v", poll, numbers, got)
		}
	}
	var bases, polls int
	if err := db.Pool(t, "superuser").QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE held IS NOT NULL), count(*) FROM feed.as_issued_polls").Scan(&bases, &polls); err != nil {
		t.Fatal(err)
	}
	// Beside the first of each request, one for each time that the changes outgrew
	// the set.
	if bases < 4 || bases > polls/2 {
		t.Errorf("%d of %d polls hold a whole set", bases, polls)
	}
}

// Reads that are stored at the same moment, of one request and of two that bring
// the same new bodies: every poll still says what it held, and each body is new
// once.
func TestWritersAtOnce(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	s := store.New(db.Pool(t, "feed"))
	type stored struct {
		store.Written
		numbers []int
	}
	var all []stored
	for round := range testkit.Soak(8, 100) {
		var reads []lookedUp
		for writer := range 6 {
			numbers := make([]int, 0, 40)
			for i := range 30 {
				numbers = append(numbers, round*30+i) // what all of them bring
			}
			for i := range 10 {
				numbers = append(numbers, 10_000+(round*6+writer)*10+i)
			}
			reads = append(reads, lookUp(t, s, []string{"a", "b"}[writer%2], numbers))
		}
		results := make(chan stored, len(reads))
		for _, r := range reads {
			go func() {
				w, err := s.Record(context.WithoutCancel(t.Context()), r.poll, r.known, r.fresh)
				if err != nil {
					t.Error(err)
				}
				results <- stored{w, r.numbers}
			}()
		}
		fresh := int64(0)
		for range reads {
			one := <-results
			fresh += one.New
			all = append(all, one)
		}
		if fresh != 30+6*10 {
			t.Errorf("round %d: %d bodies were new, want 90", round, fresh)
		}
	}
	for _, one := range all {
		if got := held(t, s, one.PollID); !slices.Equal(got, one.numbers) {
			t.Errorf("poll %d held %v, and is told as %v", one.PollID, one.numbers, got)
		}
	}
}

// A read in which nothing changed writes the poll and no set.
func TestAnUnchangedReadIsOneSmallRow(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	s := store.New(db.Pool(t, "feed"))
	first := record(t, s, "a", []int{1, 2, 3})
	second := record(t, s, "a", []int{3, 2, 1})
	if first.New != 3 || second.New != 0 {
		t.Fatalf("new: %d, then %d", first.New, second.New)
	}
	var n int
	err := db.Pool(t, "superuser").QueryRow(t.Context(), `SELECT count(*) FROM feed.as_issued_polls
		WHERE id = $1 AND base_id = $2 AND held IS NULL AND appeared IS NULL AND disappeared IS NULL`, second.PollID, first.PollID).Scan(&n)
	if err != nil || n != 1 {
		t.Errorf("the second poll carries a set (%v)", err)
	}
	polls, err := s.LastPolls(t.Context(), "demo", time.Now(), nil)
	if err != nil || len(polls) != 1 || polls[0].ID != second.PollID {
		t.Errorf("the last polls are %+v, %v", polls, err)
	}
}

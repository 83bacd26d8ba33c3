package relay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
)

// Two transactions are open on one object. The one that queues first commits
// first, because the second cannot queue before: its insert waits, in every
// isolation level, and its id is drawn afterwards. The transaction that began
// (and took its snapshot) first is the one that commits last here, so that
// neither begin nor snapshot can be mistaken for the order.
func TestCommitOrderIsTheOrderOfIDs(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			tuple := owner("alice", 1)
			begun, err := s.ledger.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = begun.Rollback(context.Background()) }()
			if _, err := begun.Exec(t.Context(), "SELECT 1"); err != nil {
				t.Fatal(err)
			}
			other, err := s.ledger.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Rollback(context.Background()) }()
			if _, err := other.Exec(t.Context(), insert, payload{Writes: []fga.Tuple{tuple}}.json(t)); err != nil {
				t.Fatal(err)
			}

			// The delete is sent to the database now: its identity default is
			// evaluated, and then it waits for the lock.
			inserted := make(chan error, 1)
			go func() {
				_, err := begun.Exec(context.Background(), insert, payload{Deletes: []fga.Key{tuple.Key()}}.json(t))
				inserted <- err
			}()
			superuser := s.db.Pool(t, "superuser")
			testkit.Eventually(t, 5*time.Second, func() (bool, string) {
				var waiting int
				err := superuser.QueryRow(t.Context(), `
					SELECT count(*) FROM pg_stat_activity
					 WHERE datname = current_database() AND wait_event = 'advisory'`).Scan(&waiting)
				return waiting == 1, fmt.Sprintf("%d inserts wait, %v", waiting, err)
			})
			select {
			case err := <-inserted:
				t.Fatalf("the second insert did not wait: %v", err)
			default:
			}
			if err := other.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-inserted; err != nil {
				t.Fatal(err)
			}
			if err := begun.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}

			for range 3 {
				s.start(t, s.client, quick())
			}
			s.drained(t, 10*time.Second)
			s.holds(t) // written, then deleted
		})
	}
}

// Writers of different objects do not wait for each other.
func TestWritersOfOtherObjectsGoOn(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	open, err := s.ledger.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Rollback(context.Background()) }()
	if _, err := open.Exec(t.Context(), insert, payload{Writes: []fga.Tuple{owner("alice", 1)}}.json(t)); err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.ledger.Exec(limited, insert, payload{Writes: []fga.Tuple{owner("alice", 2)}}.json(t)); err != nil {
		t.Fatalf("a row of another object waited: %v", err)
	}
}

// writeHistory lets several writers queue rows for each of the objects at the
// same time: owners come and go, a row at a time, some transactions roll back.
func (s *stack) writeHistory(t *testing.T, from, objects, rowsEach int) {
	t.Helper()
	var writers sync.WaitGroup
	work := make(chan int)
	for range 8 {
		writers.Go(func() {
			for n := range work {
				if err := s.writeOne(n); err != nil {
					t.Errorf("queuing for object %d: %v", n, err)
				}
			}
		})
	}
	for range rowsEach {
		for n := range objects {
			work <- from + n
		}
	}
	close(work)
	writers.Wait()
}

func (s *stack) writeOne(n int) error {
	tuple := owner([]string{"alice", "bob"}[rand.IntN(2)], n)
	change := payload{Writes: []fga.Tuple{tuple}}
	if rand.IntN(2) == 0 {
		change = payload{Deletes: []fga.Key{tuple.Key()}}
	}
	content, err := json.Marshal(change)
	if err != nil {
		return err
	}
	tx, err := s.ledger.Begin(context.Background())
	if err != nil {
		return err
	}
	if _, err := tx.Exec(context.Background(), insert, content); err != nil {
		return err
	}
	if rand.IntN(10) == 0 {
		return tx.Rollback(context.Background())
	}
	return tx.Commit(context.Background())
}

// replay computes what the engine must hold: every row, by id.
func (s *stack) replay(t *testing.T) []fga.Tuple {
	t.Helper()
	result, err := s.relay.Query(t.Context(), "SELECT payload FROM outbox.fga_outbox ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	contents, err := pgx.CollectRows(result, pgx.RowTo[[]byte])
	if err != nil {
		t.Fatal(err)
	}
	held := map[fga.Key]fga.Tuple{}
	for _, content := range contents {
		var p payload
		if err := json.Unmarshal(content, &p); err != nil {
			t.Fatal(err)
		}
		for _, key := range p.Deletes {
			delete(held, key)
		}
		for _, tuple := range p.Writes {
			held[tuple.Key()] = tuple
		}
	}
	var tuples []fga.Tuple
	for _, tuple := range held {
		tuples = append(tuples, tuple)
	}
	return tuples
}

// Relays come and go while objects change: the end state is the last row's. The
// claims are small and the way to the engine takes its time, now more, now less,
// so that the rows of one object lie with several relays at once if anything
// lets them.
func TestOrderWithSeveralRelays(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := testkit.NewProxy(t, s.engine.APIURL)
	p.Toxic("latency", "upstream", `{"latency":30,"jitter":30}`)
	slow := s.clientVia(t, p.URL)
	settings := quick()
	settings.BatchRows = 4
	objects := testkit.Soak(10, 200)
	s.writeHistory(t, 0, objects, 6)
	var stops []func()
	for range 5 {
		stops = append(stops, s.start(t, slow, settings))
	}
	for round := range testkit.Soak(3, 20) {
		s.writeHistory(t, round%2*objects, objects, 6)
		i := rand.IntN(len(stops))
		stops[i]()
		stops[i] = s.start(t, slow, settings)
	}
	s.drained(t, 5*time.Minute)
	s.holds(t, s.replay(t)...)
	for _, r := range s.rows(t) {
		if r.attempts != 0 {
			t.Errorf("row %d was refused: %s", r.id, r.reason)
		}
	}
}

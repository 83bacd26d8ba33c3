package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/pg"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

// The relay's statements work without prepared ones (mode exec), behind a pooler
// that hands each transaction to another connection, and on while a migration
// changes the table under prepared ones.
func TestT44QueryModes(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, s *stack) config.Database{
		"prepared": func(_ *testing.T, s *stack) config.Database {
			return config.Database{URL: s.db.URL("relay"), MaxConns: 4, Mode: "prepared"}
		},
		"exec": func(_ *testing.T, s *stack) config.Database {
			return config.Database{URL: s.db.URL("relay"), MaxConns: 4, Mode: "exec"}
		},
		"pgbouncer": func(t *testing.T, s *stack) config.Database {
			return config.Database{URL: testkit.Pooler(t, s.db.URL("relay")), MaxConns: 20, Mode: "exec"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			pool, err := pg.Open(context.Background(), open(t, s), "test")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			s.queue = store.New(pool)
			settings := quick()
			settings.Workers, settings.BatchRows = 10, 5
			s.start(t, s.client, settings)
			s.start(t, s.client, settings)
			var want []fga.Tuple
			for n := range 30 {
				if n == 15 {
					if _, err := s.db.Pool(t, "superuser").Exec(t.Context(), "ALTER TABLE outbox.fga_outbox ADD COLUMN later text"); err != nil {
						t.Fatal(err)
					}
				}
				change := capture(n, "acme", "alice")
				want = append(want, change.Writes...)
				s.insert(t, change)
			}
			s.insert(t, payload{Writes: []fga.Tuple{{User: "user:eve", Relation: "nope", Object: job(99)}}})
			s.drained(t, 30*time.Second)
			s.holds(t, want...)
			if dead, err := s.queue.ListDead(t.Context(), 0, 10); err != nil || len(dead) != 1 {
				t.Errorf("dead rows: %v, %v", dead, err)
			}
		})
	}
}

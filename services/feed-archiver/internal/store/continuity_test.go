package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

var midnight = time.Date(2026, 10, 5, 0, 0, 0, 0, time.UTC)

// history writes reads as of long ago, which only a superuser who first
// disables the trigger can.
func history(t *testing.T, superuser *pgxpool.Pool, table, columns, values, source string, seconds ...int) {
	t.Helper()
	tx, err := superuser.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "ALTER TABLE feed."+table+" DISABLE TRIGGER stamp"); err != nil {
		t.Fatal(err)
	}
	for _, s := range seconds {
		at := midnight.Add(time.Duration(s) * time.Second)
		if _, err := tx.Exec(t.Context(), "INSERT INTO feed."+table+" (source, request, fetched_at, received_at, "+columns+") VALUES ($1, 'r', $2, $2, "+values+")", source, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Exec(t.Context(), "ALTER TABLE feed."+table+" ENABLE ALWAYS TRIGGER stamp"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func polls(t *testing.T, superuser *pgxpool.Pool, source string, seconds ...int) {
	history(t, superuser, "as_issued_polls", "http_status, items_seen, items_new", "200, 0, 0", source, seconds...)
}

func every(step, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i * step
	}
	return all
}

func TestContinuity(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	su := db.Pool(t, "superuser")
	polls(t, su, "minutely", 0, 60, 120, 180)          // 0 and 120 count
	polls(t, su, "clustered", 0, 5, 10, 300, 305, 600) // requests of one round
	polls(t, su, "single", 40)
	gapped := append(every(300, 10), 2700+1200) // then 20 minutes of nothing
	polls(t, su, "gapped", append(gapped, 4200, 4500, 4800)...)
	polls(t, su, "silent", every(300, 5)...)
	polls(t, su, "outside", -300, 86400)
	history(t, su, "as_issued_failed_reads", "reason", "'x'", "gapped", 3000)

	from, until := midnight, midnight.Add(5000*time.Second)
	sources, gaps, err := store.New(db.Pool(t, "feed")).Continuity(t.Context(), from, until)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]store.Continuity)
	for _, c := range sources {
		got[c.Source] = c
	}
	for source, want := range map[string]store.Continuity{
		"minutely":  {Reads: 2, UsualSeconds: 120, LongestSeconds: 120, Status: "silent"},
		"clustered": {Reads: 3, UsualSeconds: 300, LongestSeconds: 300, Status: "silent"},
		"single":    {Reads: 1, Status: "single_read"},
		"gapped":    {Reads: 14, UsualSeconds: 300, LongestSeconds: 1200, OverThreeTimesUsual: 1, Status: "gapped"},
		"silent":    {Reads: 5, UsualSeconds: 300, LongestSeconds: 300, Status: "silent"},
	} {
		c := got[source]
		if c.Reads != want.Reads || c.UsualSeconds != want.UsualSeconds || c.LongestSeconds != want.LongestSeconds ||
			c.OverThreeTimesUsual != want.OverThreeTimesUsual || c.Status != want.Status {
			t.Errorf("%s: got %+v, want %+v", source, c, want)
		}
	}
	if at := got["gapped"].LongestStartedAt; !at.Equal(midnight.Add(2700 * time.Second)) {
		t.Errorf("the longest interval began at %s", at)
	}
	if _, there := got["outside"]; there {
		t.Error("a source without a read in the stretch is listed")
	}
	if p95 := got["gapped"].P95Seconds; p95 < 300 || p95 > 1200 {
		t.Errorf("the 95th percentile is %v", p95)
	}
	for _, g := range gaps {
		if g.Source != "gapped" {
			continue
		}
		if !g.StartedAt.Equal(midnight.Add(2700*time.Second)) || g.EndedAt.Sub(g.StartedAt) != 1200*time.Second || g.FailedReads != 1 || g.MinutesAlive != 0 {
			t.Errorf("the gap is %+v", g)
		}
	}
	// Up to the moment after its last read, the steady one is continuous.
	sources, _, err = store.New(db.Pool(t, "feed")).Continuity(t.Context(), from, midnight.Add(1300*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range sources {
		if c.Source == "silent" && c.Status != "continuous" {
			t.Errorf("a steady source is %s", c.Status)
		}
	}
}

// As documented, from SQL, as the service's role.
func TestContinuityFromSQL(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	polls(t, db.Pool(t, "superuser"), "demo", 0, 60, 120, 180)
	for _, role := range []string{"feed", "superuser"} {
		name := "archive_continuity"
		if role == "superuser" {
			name = "feed." + name
		}
		var reads int
		var usual time.Duration
		err := db.Pool(t, role).QueryRow(t.Context(), "SELECT reads, usual_interval FROM "+name+"($1, $2)", midnight, midnight.Add(time.Hour)).Scan(&reads, &usual)
		if err != nil || reads != 2 || usual != 2*time.Minute {
			t.Errorf("%s: %d reads every %s, %v", role, reads, usual, err)
		}
	}
}

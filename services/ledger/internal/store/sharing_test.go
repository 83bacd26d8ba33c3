package store_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// admitted admits one capture and empties the outbox.
func (b *bundle) admitted(t *testing.T) (store.Admission, uuid.UUID) {
	t.Helper()
	a := b.submit(t, 1)
	results, err := b.Admit(t.Context(), a)
	if err != nil || !results[0].New {
		t.Fatalf("%+v, %v", results, err)
	}
	b.emptyOutbox(t)
	return a[0], results[0].ArchiveID
}

func (b *bundle) emptyOutbox(t *testing.T) {
	t.Helper()
	if _, err := b.superuser.Exec(t.Context(), "DELETE FROM outbox.fga_outbox"); err != nil {
		t.Fatal(err)
	}
}

type payload struct {
	Writes  []fga.Tuple `json:"writes"`
	Deletes []fga.Key   `json:"deletes"`
}

// queued are the payloads in the outbox, in order.
func (b *bundle) queued(t *testing.T) []payload {
	t.Helper()
	rows, err := b.superuser.Query(t.Context(), "SELECT payload FROM outbox.fga_outbox ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	payloads, err := pgx.CollectRows(rows, pgx.RowTo[payload])
	if err != nil {
		t.Fatal(err)
	}
	return payloads
}

func shareWith(subject string, from time.Time) store.Share {
	return store.Share{Subject: subject, GrantedAt: from, Until: from.Add(time.Hour)}
}

// Renewing is one row: the tuple's delete, then its write with the new condition,
// whose time has one spelling.
func TestT22RenewingIsADeleteAndThenAWrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, id := b.admitted(t)
	elsewhere := time.FixedZone("", 3600)
	for _, granted := range []time.Time{start, start.Add(1500 * time.Microsecond).In(elsewhere)} {
		if err := b.PutShare(t.Context(), id, shareWith("dave", granted), "alice"); err != nil {
			t.Fatal(err)
		}
	}
	key := fga.Key{User: "user:dave", Relation: "viewer", Object: fga.Archive(id.String())}
	queued := b.queued(t)
	if len(queued) != 2 {
		t.Fatalf("%d rows", len(queued))
	}
	for i, spelling := range []string{"2026-11-30T12:00:00Z", "2026-11-30T12:00:00.0015Z"} {
		got := queued[i]
		if !slices.Equal(got.Deletes, []fga.Key{key}) || len(got.Writes) != 1 || got.Writes[0].Key() != key ||
			got.Writes[0].Condition.Context["grant_time"] != spelling || got.Writes[0].Condition.Context["grant_duration"] != "1h0m0s" {
			t.Errorf("row %d: %+v", i, got)
		}
	}
	shares, err := b.Shares(t.Context(), id, start.Add(time.Hour))
	if err != nil || len(shares) != 1 || !shares[0].GrantedAt.Equal(start.Add(1500*time.Microsecond)) {
		t.Errorf("%+v, %v", shares, err)
	}
	if shares, err := b.Shares(t.Context(), id, start.Add(2*time.Hour)); err != nil || len(shares) != 0 {
		t.Errorf("a share that has ended is listed: %+v, %v", shares, err)
	}
	for _, want := range []bool{true, false} {
		if removed, err := b.RemoveShare(t.Context(), id, "dave"); err != nil || removed != want {
			t.Errorf("removed %v, %v, want %v", removed, err, want)
		}
	}
	if queued := b.queued(t); len(queued) != 4 || !slices.Equal(queued[2].Deletes, []fga.Key{key}) || len(queued[2].Writes) != 0 || !slices.Equal(queued[3].Deletes, []fga.Key{key}) {
		t.Errorf("after the removal: %+v", queued[2:])
	}
	if err := b.PutShare(t.Context(), uuid.New(), shareWith("dave", start), "alice"); !errors.Is(err, store.ErrNoArchive) {
		t.Errorf("sharing what is not there: %v", err)
	}
}

// Whoever shares clears away what has ended of the same archive, with its tuples;
// beyond so many that hold there are no more, though each of them can be renewed.
func TestEndedSharesAreClearedAndTheirNumberIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, id := b.admitted(t)
	_, other := b.admitted(t)
	for archive, subject := range map[uuid.UUID]string{id: "early", other: "elsewhere"} {
		if err := b.PutShare(t.Context(), archive, shareWith(subject, start), "alice"); err != nil {
			t.Fatal(err)
		}
	}
	fill := `INSERT INTO ledger.shares (archive_id, subject, granted_by, granted_at, until) SELECT $1, 'user-' || n, 'alice', $2, $3 FROM generate_series(1, $4) AS n`
	if _, err := b.superuser.Exec(t.Context(), fill, id, start, start.Add(24*time.Hour), store.MaxShares-1); err != nil {
		t.Fatal(err)
	}
	b.emptyOutbox(t)
	later := start.Add(2 * time.Hour) // the first one ended an hour ago
	if err := b.PutShare(t.Context(), id, shareWith("dave", later), "alice"); err != nil {
		t.Fatal(err)
	}
	queued := b.queued(t)
	want := []string{"user:early", "user:dave"}
	if len(queued) != 1 || len(queued[0].Deletes) != 2 || queued[0].Deletes[0].User != want[0] || queued[0].Deletes[1].User != want[1] || len(queued[0].Writes) != 1 {
		t.Errorf("queued %+v, want the deletes of %v", queued, want)
	}
	if err := b.PutShare(t.Context(), id, shareWith("one-too-many", later), "alice"); !errors.Is(err, store.ErrTooManyShares) {
		t.Errorf("share %d: %v", store.MaxShares+1, err)
	}
	if err := b.PutShare(t.Context(), id, shareWith("user-7", later), "alice"); err != nil {
		t.Errorf("renewing at the limit: %v", err)
	}
	if n := len(b.queued(t)); n != 2 {
		t.Errorf("%d outbox rows of two shares and a refusal", n)
	}
	if shares, err := b.Shares(t.Context(), other, start); err != nil || len(shares) != 1 {
		t.Errorf("another archive's: %+v, %v", shares, err)
	}
}

// The tuples of an archive go with it; those of its capture with its last one.
func TestDeletingTakesBackEveryTuple(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, first := b.admitted(t)
	sibling := a
	sibling.Key = "second.wacz"
	results, err := b.Admit(t.Context(), []store.Admission{sibling})
	if err != nil || !results[0].New {
		t.Fatalf("%+v, %v", results, err)
	}
	second := results[0].ArchiveID
	for _, subject := range []string{"dave", "erin"} {
		if err := b.PutShare(t.Context(), first, shareWith(subject, start), "alice"); err != nil {
			t.Fatal(err)
		}
	}
	b.emptyOutbox(t)
	stray := fga.Key{User: "organization:gamma#member", Relation: "viewer", Object: fga.Archive(first.String())}
	job := fga.CaptureJob(a.TaskID.String())
	for archive, want := range map[uuid.UUID][]fga.Key{
		first: {
			stray,
			{User: "user:dave", Relation: "viewer", Object: fga.Archive(first.String())},
			{User: "user:erin", Relation: "viewer", Object: fga.Archive(first.String())},
			{User: job, Relation: "parent", Object: fga.Archive(first.String())},
		},
	} {
		task, err := b.DeleteArchive(t.Context(), archive, "alice", start, []fga.Key{stray, want[1]})
		if err != nil || task != a.TaskID {
			t.Fatalf("%v %v", task, err)
		}
		if queued := b.queued(t); len(queued) != 1 || !sameKeys(queued[0].Deletes, want) || len(queued[0].Writes) != 0 {
			t.Errorf("queued %+v, want %v", queued, want)
		}
	}
	b.emptyOutbox(t)
	if _, err := b.DeleteArchive(t.Context(), second, "alice", start, nil); err != nil {
		t.Fatal(err)
	}
	want := []fga.Key{
		{User: job, Relation: "parent", Object: fga.Archive(second.String())},
		{User: "organization:acme", Relation: "parent", Object: job},
		{User: "user:alice", Relation: "owner", Object: job},
	}
	if queued := b.queued(t); len(queued) != 1 || !sameKeys(queued[0].Deletes, want) {
		t.Errorf("queued %+v, want %v", queued, want)
	}
	if _, err := b.DeleteArchive(t.Context(), second, "alice", start, nil); !errors.Is(err, store.ErrNoArchive) {
		t.Errorf("deleting twice: %v", err)
	}
	if n := b.count(t, "SELECT count(*) FROM ledger.shares"); n != 0 {
		t.Errorf("%d shares are left", n)
	}
}

func sameKeys(a, b []fga.Key) bool {
	set := map[fga.Key]int{}
	for _, k := range a {
		set[k]++
	}
	for _, k := range b {
		set[k]--
	}
	for _, n := range set {
		if n != 0 {
			return false
		}
	}
	return len(a) == len(b)
}

// A tombstone holds the task and the object's name against every path, the
// table's own included, and says of the object what was admitted.
func TestWhatWasDeletedNeverComesBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, id := b.admitted(t)
	if _, err := b.superuser.Exec(t.Context(), "UPDATE ledger.archives SET object_version_id = 'v1', sha256 = sha256('x')"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteArchive(t.Context(), id, "alice", start, nil); err != nil {
		t.Fatal(err)
	}
	b.emptyOutbox(t)
	if n := b.count(t, `SELECT count(*) FROM ledger.tombstones WHERE archive_id = $1 AND task_id = $2 AND bucket = 'browserhive' AND object_key = $3
		AND object_version_id = 'v1' AND object_etag = 'e' AND sha256 = sha256('x') AND deleted_by = 'alice' AND deleted_at = $4`, id, a.TaskID, a.Key, start); n != 1 {
		t.Error("the tombstone does not say what was deleted")
	}
	sameTask, sameName := a, a
	sameTask.Key = "elsewhere.wacz"
	sameName.TaskID = uuid.New()
	fresh := b.submit(t, 1)[0]
	results, err := b.Admit(t.Context(), []store.Admission{a, sameTask, fresh, sameName})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if isFresh := i == 2; r.New != isFresh || r.Deleted == isFresh || (r.ArchiveID == uuid.Nil) == isFresh || r.Err != nil {
			t.Errorf("admission %d: %+v", i, r)
		}
	}
	if queued := b.queued(t); len(queued) != 1 {
		t.Errorf("%d rows are queued, want that of the fresh one", len(queued))
	}
	for _, role := range []string{"ledger", "migrate", "superuser"} {
		tag, err := b.db.Pool(t, role).Exec(t.Context(), `INSERT INTO ledger.archives (task_id, bucket, object_key, source_url, captured_at, object_etag, object_size)
			VALUES ($1, 'browserhive', 'third.wacz', 'http://a/', now(), 'e', 1)`, a.TaskID)
		if err != nil || tag.RowsAffected() != 0 {
			t.Errorf("as %s: %v, %v", role, tag, err)
		}
	}
	for key, want := range map[string]bool{a.Key: true, fresh.Key: true, "third.wacz": false} {
		if taken, err := b.Admitted(t.Context(), "browserhive", key); err != nil || taken != want {
			t.Errorf("%s was admitted: %v, %v", key, taken, err)
		}
	}
	if _, err := b.ArchiveLocation(t.Context(), id); !errors.Is(err, store.ErrNoArchive) {
		t.Errorf("its location: %v", err)
	}
}

// The service's role removes an archive by writing its tombstone, and in no
// other way; what the tombstone says of the object is not its to say.
func TestAnArchiveGoesByItsTombstoneAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, id := b.admitted(t)
	pool := b.db.Pool(t, "ledger")
	for _, statement := range []string{
		"DELETE FROM archives WHERE id = $1",
		"UPDATE archives SET task_id = gen_random_uuid() WHERE id = $1",
		"INSERT INTO tombstones (archive_id, task_id, deleted_by, deleted_at) VALUES ($1, gen_random_uuid(), 'x', now())",
		"UPDATE tombstones SET deleted_by = 'x' WHERE archive_id = $1",
		"DELETE FROM tombstones WHERE archive_id = $1",
	} {
		_, err := pool.Exec(t.Context(), statement, id)
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "42501" {
			t.Errorf("%s: %v", statement, err)
		}
	}
	// A share that nobody takes back keeps the archive: its tuple would stay.
	if err := b.PutShare(t.Context(), id, shareWith("dave", start), "alice"); err != nil {
		t.Fatal(err)
	}
	const bury = "INSERT INTO tombstones (archive_id, deleted_by, deleted_at) VALUES ($1, 'alice', now())"
	if _, err := pool.Exec(t.Context(), bury, id); err == nil {
		t.Error("an archive went while it was shared")
	}
	if tag, err := pool.Exec(t.Context(), bury, uuid.New()); err != nil || tag.RowsAffected() != 0 {
		t.Errorf("a tombstone for nothing: %v, %v", tag, err)
	}
}

// Deletions race admissions of the same task and of the same name, and shares.
// Whoever wins, in the end nothing of a tombstoned task is there, each archive
// that was admitted has its one row, and each deletion its own.
func TestDeletingRacesAdmitting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range testkit.Soak(25, 500) {
		a, id := b.admitted(t)
		sameTask, sameName := a, a
		sameTask.Key = uuid.NewString()
		sameName.TaskID = uuid.New()
		var race sync.WaitGroup
		begin := make(chan struct{})
		for _, offer := range [][]store.Admission{{a, sameTask}, {sameName}, {sameTask, a}, {sameName, sameTask}} {
			race.Go(func() {
				<-begin
				if _, err := b.Admit(t.Context(), offer); err != nil {
					t.Error(err)
				}
			})
		}
		deleted := make(chan error, 3)
		for range 3 {
			race.Go(func() {
				<-begin
				_, err := b.DeleteArchive(t.Context(), id, "alice", start, nil)
				deleted <- err
			})
		}
		race.Go(func() {
			<-begin
			if err := b.PutShare(t.Context(), id, shareWith("dave", start), "alice"); err != nil && !errors.Is(err, store.ErrNoArchive) {
				t.Error(err)
			}
		})
		close(begin)
		race.Wait()
		close(deleted)
		won := 0
		for err := range deleted {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, store.ErrNoArchive):
				t.Error(err)
			}
		}
		if won != 1 {
			t.Fatalf("%d of three deletions deleted", won)
		}
		// The same task may have come in under another name before the deletion,
		// never after it; under the deleted name there is nothing.
		if n := b.count(t, "SELECT count(*) FROM ledger.archives WHERE bucket = 'browserhive' AND object_key = $1", a.Key); n != 0 {
			t.Fatal("what was deleted is back under its name")
		}
		if r, err := b.Admit(t.Context(), []store.Admission{{
			TaskID: a.TaskID, OrgID: "acme", Bucket: "browserhive", Key: uuid.NewString(), SourceURL: "http://a/", CapturedAt: start, ETag: "e", Size: 1,
		}}); err != nil || !r[0].Deleted {
			t.Fatalf("a tombstoned task is admitted: %+v, %v", r, err)
		}
		if n := b.count(t, "SELECT count(*) FROM ledger.shares WHERE archive_id = $1", id); n != 0 {
			t.Fatal("a share of a deleted archive is left")
		}
	}
}

package sharing_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/minio/minio-go/v7"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/objstore"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/sharing"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// graveyard is the ledger's tables over a real bucket.
type graveyard struct {
	rows  *store.Store
	super *pgxpool.Pool
	s3    testkit.S3
	api   *minio.Client
}

func newGraveyard(t *testing.T) *graveyard {
	t.Helper()
	db, s3 := testkit.Postgres(t), testkit.Bucket(t)
	return &graveyard{rows: store.New(db.Pool(t, "ledger")), super: db.Pool(t, "superuser"), s3: s3, api: s3.Client(t)}
}

func (g *graveyard) remover(t *testing.T, endpoint string) *sharing.Remover {
	t.Helper()
	client, err := objstore.NewS3(config.Store{Endpoint: endpoint, Region: g.s3.Region, Bucket: g.s3.Bucket, AccessKey: g.s3.AccessKey, SecretKey: g.s3.SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	return sharing.NewRemover(g.rows, client, prometheus.NewRegistry(), zap.NewNop())
}

func (g *graveyard) put(t *testing.T, bucket, key, body string, options minio.PutObjectOptions) string {
	t.Helper()
	info, err := g.api.PutObject(t.Context(), bucket, key, strings.NewReader(body), int64(len(body)), options)
	if err != nil {
		t.Fatal(err)
	}
	return info.VersionID
}

// bury admits an object as it is now and deletes its archive.
func (g *graveyard) bury(t *testing.T, bucket, key, version string) uuid.UUID {
	t.Helper()
	id := uuid.New()
	if _, err := g.super.Exec(t.Context(), `INSERT INTO ledger.archives (id, task_id, bucket, object_key, source_url, captured_at, object_etag, object_size, object_version_id)
		VALUES ($1, $1, $2, $3, 'http://a/', now(), 'e', 1, nullif($4, ''))`, id, bucket, key, version); err != nil {
		t.Fatal(err)
	}
	if _, err := g.rows.DeleteArchive(t.Context(), id, "alice", time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	return id
}

type state struct {
	Removed bool
	Note    *string
	Waits   bool
}

func (g *graveyard) state(t *testing.T, id uuid.UUID) state {
	t.Helper()
	rows, err := g.super.Query(t.Context(), `SELECT object_removed_at IS NOT NULL AS removed, note, next_attempt_at IS NOT NULL AS waits FROM ledger.tombstones WHERE archive_id = $1`, id)
	if err != nil {
		t.Fatal(err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[state])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// body reads one version, or "" where it is not there.
func (g *graveyard) body(t *testing.T, bucket, key, version string) string {
	t.Helper()
	object, err := g.api.GetObject(t.Context(), bucket, key, minio.GetObjectOptions{VersionID: version})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	content, err := io.ReadAll(object)
	if err != nil && minio.ToErrorResponse(err).StatusCode != http.StatusNotFound {
		t.Fatal(err)
	}
	return string(content)
}

// What goes is the admitted version, and nothing that came before or after it
// under the same name.
func TestTheAdmittedVersionIsRemoved(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	before := g.put(t, g.s3.Bucket, "a", "before", minio.PutObjectOptions{})
	version := g.put(t, g.s3.Bucket, "a", "admitted", minio.PutObjectOptions{})
	after := g.put(t, g.s3.Bucket, "a", "after", minio.PutObjectOptions{})
	id := g.bury(t, g.s3.Bucket, "a", version)
	if err := g.remover(t, g.s3.Endpoint).Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := g.state(t, id); !s.Removed || s.Note != nil || s.Waits {
		t.Errorf("%+v", s)
	}
	for version, want := range map[string]string{before: "before", version: "", after: "after"} {
		if got := g.body(t, g.s3.Bucket, "a", version); got != want {
			t.Errorf("version %s holds %q, want %q", version, got, want)
		}
	}
}

// A bucket that keeps no versions, and one that keeps them since: no marker is
// left in the object's place with the object behind it.
func TestAnObjectWithoutAVersionIsRemoved(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	for name, later := range map[string]bool{"-plain": false, "-later": true} {
		bucket := g.s3.Bucket + name
		if err := g.api.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{}); err != nil {
			t.Fatal(err)
		}
		g.put(t, bucket, "a", "x", minio.PutObjectOptions{})
		if later {
			if err := g.api.EnableVersioning(t.Context(), bucket); err != nil {
				t.Fatal(err)
			}
		}
		id := g.bury(t, bucket, "a", "")
		if err := g.remover(t, g.s3.Endpoint).Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := g.state(t, id); !s.Removed {
			t.Errorf("%s: %+v", name, s)
		}
		for object := range g.api.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{WithVersions: later}) {
			t.Errorf("%s still holds %+v", name, object)
		}
	}
}

// What the bucket locks is left, with a note, and not tried for ever.
func TestALockedObjectIsLeftWithANote(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	bucket := g.s3.Bucket + "-lock"
	if err := g.api.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{ObjectLocking: true}); err != nil {
		t.Fatal(err)
	}
	for want, options := range map[string]minio.PutObjectOptions{
		"COMPLIANCE": {Mode: minio.Compliance, RetainUntilDate: time.Now().Add(time.Hour)},
		"legal hold": {LegalHold: minio.LegalHoldEnabled},
	} {
		version := g.put(t, bucket, want, "kept", options)
		id := g.bury(t, bucket, want, version)
		if err := g.remover(t, g.s3.Endpoint).Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := g.state(t, id)
		if s.Removed || s.Waits || s.Note == nil || !strings.Contains(*s.Note, want) {
			t.Errorf("%+v, note %v, want one with %q", s, s.Note, want)
		}
		if got := g.body(t, bucket, want, version); got != "kept" {
			t.Errorf("the object holds %q", got)
		}
	}
}

// A store that is away costs a try and a note, and the object goes when it is
// back.
func TestAStoreThatIsAwayIsAskedAgain(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	version := g.put(t, g.s3.Bucket, "a", "x", minio.PutObjectOptions{})
	id := g.bury(t, g.s3.Bucket, "a", version)
	if err := g.remover(t, "http://127.0.0.1:1").Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := g.state(t, id); s.Removed || !s.Waits || s.Note == nil || *s.Note != "the object store does not answer" {
		t.Errorf("%+v", s)
	}
	var wait, attempts int
	read := func() {
		t.Helper()
		if err := g.super.QueryRow(t.Context(), "SELECT extract(epoch FROM next_attempt_at - now())::int, attempts FROM ledger.tombstones").Scan(&wait, &attempts); err != nil {
			t.Fatal(err)
		}
	}
	if read(); wait < 1 || wait > 5 || attempts != 1 {
		t.Errorf("again in %d s after %d attempts", wait, attempts)
	}
	due := func() {
		t.Helper()
		if _, err := g.super.Exec(t.Context(), "UPDATE ledger.tombstones SET next_attempt_at = now(), attempts = 40"); err != nil {
			t.Fatal(err)
		}
	}
	due()
	if err := g.remover(t, "http://127.0.0.1:1").Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if read(); wait < 3500 || wait > 3600 {
		t.Errorf("the 41st pause is %d s", wait)
	}
	due()
	if err := g.remover(t, g.s3.Endpoint).Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := g.state(t, id); !s.Removed || s.Note != nil {
		t.Errorf("%+v", s)
	}
}

// Many replicas, of which some are stopped in the middle: every object goes.
func TestManyReplicasRemoveEverything(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	n := testkit.Soak(40, 1000)
	versions := map[string]string{}
	for range n {
		key := uuid.NewString()
		versions[key] = g.put(t, g.s3.Bucket, key, "x", minio.PutObjectOptions{})
		g.bury(t, g.s3.Bucket, key, versions[key])
	}
	var replicas sync.WaitGroup
	for i := range 6 {
		remover := g.remover(t, g.s3.Endpoint)
		replicas.Go(func() {
			ctx, stop := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Millisecond)
			defer stop()
			_ = remover.Look(ctx) // stopped somewhere
		})
	}
	replicas.Wait()
	// The leases of those that were stopped run out.
	if _, err := g.super.Exec(t.Context(), "UPDATE ledger.tombstones SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL"); err != nil {
		t.Fatal(err)
	}
	if err := g.remover(t, g.s3.Endpoint).Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key, version := range versions {
		if g.body(t, g.s3.Bucket, key, version) != "" {
			t.Errorf("%s is still there", key)
		}
	}
	if left, err := g.rows.CountRemovals(t.Context()); err != nil || left != 0 {
		t.Errorf("%d are left, %v", left, err)
	}
}

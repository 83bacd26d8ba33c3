package crawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/objstore"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/admission"
	"github.com/muniment/muniment/services/ledger/internal/crawl"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// bundle is the ledger's crawls over a real database and a real object store.
type bundle struct {
	*crawl.Service
	rows       *store.Store
	db         *testkit.DB
	s3         *minio.Client
	objects    *objstore.Client
	bucket     string
	dispatched atomic.Int64
}

func setup(t *testing.T) *bundle {
	t.Helper()
	s3 := testkit.Bucket(t)
	return setupIn(t, s3, s3.Bucket)
}

func setupIn(t *testing.T, s3 testkit.S3, bucket string) *bundle {
	t.Helper()
	return setupWith(t, s3, bucket, 2*time.Second, 10*time.Second)
}

// setupWith has limits of its own: of reading one object, and all of a level.
func setupWith(t *testing.T, s3 testkit.S3, bucket string, read, level time.Duration) *bundle {
	t.Helper()
	b := &bundle{db: testkit.Postgres(t), s3: s3.Client(t), bucket: bucket}
	objects, err := objstore.New(config.Store{Endpoint: s3.Endpoint, Region: s3.Region, Bucket: bucket, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	b.objects = objects
	log := zaptest.NewLogger(t)
	b.rows = store.New(b.db.Pool(t, "ledger"))
	admitter := admission.New(b.rows, objects, admission.Settings{
		Bucket: bucket, AllowedBuckets: []string{bucket}, Concurrency: 8, ReadTimeout: read, LevelTimeout: level,
	}, admission.NewMetrics(prometheus.NewRegistry()), log)
	b.Service = crawl.New(b.rows, admitter, objects, func() { b.dispatched.Add(1) }, crawl.Settings{
		Bucket: bucket, Deadline: crawl.Deadline{Base: time.Hour}, LinksConcurrency: 4, LinksTimeout: read, LevelTimeout: level,
	}, log, func() time.Time { return start })
	return b
}

// begin starts a crawl for acme, asked for by alice.
func (b *bundle) begin(t *testing.T, order crawl.Order) store.Crawl {
	t.Helper()
	alice := "alice"
	order.OrgID, order.SubmittedBy = "acme", &alice
	id, err := b.Start(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}
	return b.crawl(t, id)
}

func (b *bundle) crawl(t *testing.T, id uuid.UUID) store.Crawl {
	t.Helper()
	c, err := b.rows.Crawl(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// report reports a level of the crawl as it stands now.
func (b *bundle) report(t *testing.T, id uuid.UUID, depth int32, results ...crawl.Result) store.LevelReply {
	t.Helper()
	reply, err := b.Report(t.Context(), b.crawl(t, id), depth, results)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func (b *bundle) put(t *testing.T, key string, body []byte) string {
	t.Helper()
	if _, err := b.s3.PutObject(context.Background(), b.bucket, key, bytes.NewReader(body), int64(len(body)), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	return "s3://" + b.bucket + "/" + key
}

// capture puts a whole capture into the bucket: WACZ, links and manifest.
// change edits the manifest before it is written.
func (b *bundle) capture(t *testing.T, url, finalURL string, change func(m map[string]any), links ...string) crawl.Result {
	t.Helper()
	task := uuid.New()
	wacz := b.put(t, task.String()+"__.wacz", []byte("PK wacz"))
	m := map[string]any{
		"taskId": task, "url": url, "status": "success", "timestamp": "2026-11-30T11:59:00.123456789Z", "captureProcessingTimeMs": 5,
		"artifacts": map[string]any{"wacz": wacz}, "labels": []string{"harbor"},
	}
	if change != nil {
		change(m)
	}
	manifest, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	file := map[string]any{"taskId": task, "url": url, "finalUrl": finalURL, "links": []any{}}
	for _, href := range links {
		file["links"] = append(file["links"].([]any), map[string]any{"href": href, "text": "x", "rel": nil})
	}
	listed, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	location := b.put(t, task.String()+"__.result.json", manifest)
	linksLocation := b.put(t, task.String()+"__.links.json", listed)
	return crawl.Result{URL: url, Status: "captured", TaskID: &task, ManifestLocation: &location, LinksLocation: &linksLocation}
}

func (b *bundle) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := b.db.Pool(t, "superuser").QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// counts says how many rows there are that must not come twice.
func (b *bundle) counts(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("submissions %d holes %d archives %d outbox %d levels %d pages %d",
		b.count(t, "SELECT count(*) FROM ledger.capture_submissions"), b.count(t, "SELECT count(*) FROM ledger.capture_holes"),
		b.count(t, "SELECT count(*) FROM ledger.archives"), b.count(t, "SELECT count(*) FROM outbox.fga_outbox"),
		b.count(t, "SELECT count(*) FROM ledger.crawl_levels"), b.count(t, "SELECT count(*) FROM ledger.crawl_pages"))
}

// urls lists a reply's next pages, and its stop reason.
func urls(reply store.LevelReply) string {
	text := ""
	for _, p := range reply.Next {
		text += p.Url + " "
	}
	if reply.StopReason != nil {
		text += *reply.StopReason
	}
	return text
}

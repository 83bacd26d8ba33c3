package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
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
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/identity"
	"github.com/muniment/muniment/pkg/objstore"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/admission"
	"github.com/muniment/muniment/services/ledger/internal/crawl"
	"github.com/muniment/muniment/services/ledger/internal/listing"
	"github.com/muniment/muniment/services/ledger/internal/sink"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// compare runs the bare work and ours in turn and reports the ratio of their
// medians, so that a busy machine slows both; reset runs before each, untimed.
func compare(b *testing.B, rounds int, reset, bare, ours func()) {
	b.Helper()
	var bareTimes, ourTimes []time.Duration
	timed := func(work func()) time.Duration {
		reset()
		began := time.Now()
		work()
		return time.Since(began)
	}
	timed(bare)
	timed(ours) // the first of each warms caches and connections
	for b.Loop() {
		for range rounds {
			bareTimes, ourTimes = append(bareTimes, timed(bare)), append(ourTimes, timed(ours))
		}
	}
	slices.Sort(bareTimes)
	slices.Sort(ourTimes)
	bareMedian, ourMedian := bareTimes[len(bareTimes)/2], ourTimes[len(ourTimes)/2]
	b.ReportMetric(0, "ns/op") // rounds are not operations
	b.ReportMetric(float64(bareMedian.Microseconds())/1000, "bare-ms")
	b.ReportMetric(float64(ourMedian.Microseconds())/1000, "ours-ms")
	b.ReportMetric(float64(ourMedian)/float64(bareMedian), "ratio")
}

// benchLedger is the inside of a ledger on real engines.
type benchLedger struct {
	db      *testkit.DB
	pool    *pgxpool.Pool
	rows    *store.Store
	s3      *minio.Client
	bucket  string
	objects *objstore.Client
	crawls  *crawl.Service
}

const benchConcurrency = 16

func newBench(b *testing.B, sinks bool) *benchLedger {
	b.Helper()
	s3 := testkit.Bucket(b)
	settings := config.Store{Endpoint: s3.Endpoint, Region: s3.Region, Bucket: s3.Bucket, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey}
	objects, err := objstore.New(settings)
	if err != nil {
		b.Fatal(err)
	}
	client, err := objstore.NewS3(settings)
	if err != nil {
		b.Fatal(err)
	}
	db := testkit.Postgres(b)
	l := &benchLedger{db: db, pool: db.Pool(b, "ledger"), s3: client, bucket: s3.Bucket, objects: objects}
	l.rows = store.New(l.pool)
	admitter := admission.New(l.rows, objects, admission.Settings{
		Bucket: s3.Bucket, AllowedBuckets: []string{s3.Bucket}, Concurrency: benchConcurrency, ReadTimeout: time.Minute, LevelTimeout: 10 * time.Minute,
	}, admission.NewMetrics(prometheus.NewRegistry()), zap.NewNop())
	l.crawls = crawl.New(l.rows, admitter, objects, func() {}, crawl.Settings{
		Bucket: s3.Bucket, Deadline: crawl.Deadline{Base: time.Hour}, Sink: sinks, LinksConcurrency: 4, LinksTimeout: time.Minute, LevelTimeout: 10 * time.Minute,
	}, zap.NewNop(), time.Now)
	return l
}

// empty forgets everything that was recorded.
func (l *benchLedger) empty(b *testing.B) {
	b.Helper()
	_, err := l.db.Pool(b, "superuser").Exec(context.Background(), "TRUNCATE ledger.crawls, ledger.crawl_levels, ledger.crawl_pages, ledger.capture_submissions, ledger.capture_holes, ledger.archives, outbox.fga_outbox CASCADE")
	if err != nil {
		b.Fatal(err)
	}
}

func (l *benchLedger) begin(b *testing.B, seeds ...string) store.Crawl {
	b.Helper()
	alice := "alice"
	id, err := l.crawls.Start(context.Background(), crawl.Order{OrgID: "acme", SubmittedBy: &alice, Seeds: seeds})
	if err != nil {
		b.Fatal(err)
	}
	c, err := l.rows.Crawl(context.Background(), id)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (l *benchLedger) put(b *testing.B, key string, body []byte) {
	b.Helper()
	if _, err := l.s3.PutObject(context.Background(), l.bucket, key, bytes.NewReader(body), int64(len(body)), minio.PutObjectOptions{}); err != nil {
		b.Fatal(err)
	}
}

// atOnce does n things, so many at a time.
func atOnce(concurrency, n int, work func(i int)) {
	var group sync.WaitGroup
	for worker := range concurrency {
		group.Go(func() {
			for i := worker; i < n; i += concurrency {
				work(i)
			}
		})
	}
	group.Wait()
}

func benchPayload(archive, task uuid.UUID) string {
	body, _ := json.Marshal(map[string][]fga.Tuple{"writes": fga.CaptureTuples(archive.String(), task.String(), "acme", "alice"), "deletes": {}})
	return string(body)
}

// Inserts of the same rows, each a statement.
const (
	bareSubmission = `INSERT INTO capture_submissions (task_id, correlation_id, org_id, submitted_by, submitted_at, manifest_key, crawl_id) VALUES ($1, $2, 'acme', 'alice', now(), $3, $4)`
	bareArchive    = `INSERT INTO archives (id, task_id, correlation_id, bucket, object_key, source_url, labels, captured_at, object_etag, object_size, object_version_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, now(), $8, $9, $10)`
	bareOutbox = `INSERT INTO outbox.fga_outbox (payload) VALUES ($1)`
)

// A level report of 1,000 captured pages (submissions, manifests, archives,
// outbox, pages, reply) against a bare GetObject and HeadObject for each at the
// same concurrency and a bare insert of the same submissions, archives and
// outbox rows in batches of 100. Goal: 1.5.
func BenchmarkLevelReport(b *testing.B) {
	const n = 1000
	l := newBench(b, false)
	seeds, tasks, results := make([]string, n), make([]uuid.UUID, n), make([]crawl.Result, n)
	atOnce(benchConcurrency, n, func(i int) {
		seeds[i], tasks[i] = fmt.Sprintf("http://h%d.org/%d", i%20, i), uuid.New()
		l.put(b, tasks[i].String()+".wacz", []byte("PK wacz"))
		l.put(b, tasks[i].String()+".result.json", fmt.Appendf(nil, `{"taskId":%q,"url":%q,"status":"success","timestamp":"2026-11-30T12:00:00Z","captureProcessingTimeMs":1,"artifacts":{"wacz":"s3://%s/%s.wacz"},"labels":["harbor"]}`,
			tasks[i], seeds[i], l.bucket, tasks[i]))
		location := "s3://" + l.bucket + "/" + tasks[i].String() + ".result.json"
		results[i] = crawl.Result{URL: seeds[i], Status: "captured", TaskID: &tasks[i], ManifestLocation: &location}
	})
	var c store.Crawl
	ctx := context.Background()
	bare := func() {
		etags, versions := make([]string, n), make([]string, n)
		atOnce(benchConcurrency, n, func(i int) {
			body, err := l.s3.GetObject(ctx, l.bucket, tasks[i].String()+".result.json", minio.GetObjectOptions{})
			if err != nil {
				b.Error(err)
				return
			}
			_, err = io.Copy(io.Discard, body)
			_ = body.Close()
			info, statErr := l.s3.StatObject(ctx, l.bucket, tasks[i].String()+".wacz", minio.StatObjectOptions{})
			if err != nil || statErr != nil {
				b.Error(err, statErr)
			}
			etags[i], versions[i] = info.ETag, info.VersionID
		})
		for from := 0; from < n; from += 100 {
			var batch pgx.Batch
			for i := from; i < from+100; i++ {
				archive := uuid.New()
				batch.Queue(bareSubmission, tasks[i], c.ID.String(), tasks[i].String()+".result.json", c.ID)
				batch.Queue(bareArchive, archive, tasks[i], c.ID.String(), l.bucket, tasks[i].String()+".wacz", seeds[i], []string{"harbor"}, etags[i], int64(7), versions[i])
				batch.Queue(bareOutbox, benchPayload(archive, tasks[i]))
			}
			if err := l.pool.SendBatch(ctx, &batch).Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	ours := func() {
		if reply, err := l.crawls.Report(ctx, c, 0, results); err != nil || reply.StopReason == nil {
			b.Fatal(reply, err)
		}
	}
	compare(b, 3, func() { l.empty(b); c = l.begin(b, seeds...) }, bare, ours)
	var admitted int
	if err := l.pool.QueryRow(ctx, "SELECT count(*) FROM archives a JOIN capture_submissions USING (task_id)").Scan(&admitted); err != nil || admitted != n {
		b.Fatalf("%d archives of %d: %v", admitted, n, err)
	}
}

// Single admissions, sixteen at once (the database part: manifest read, object
// seen), against a bare transaction of two inserts. Goal: 1.2.
func BenchmarkSingleAdmission(b *testing.B) {
	const n = 400
	l := newBench(b, false)
	ctx := context.Background()
	var admissions []store.Admission
	reset := func() {
		l.empty(b)
		c := l.begin(b, "http://a.org/")
		submissions := make([]store.NewSubmission, n)
		admissions = make([]store.Admission, n)
		for i := range n {
			task := uuid.New()
			key, version := task.String()+".result.json", "v"
			submissions[i] = store.NewSubmission{TaskID: task, CorrelationID: "c", SubmittedAt: time.Now(), ManifestKey: &key}
			admissions[i] = store.Admission{
				TaskID: task, CorrelationID: &key, OrgID: "acme", SubmittedBy: c.SubmittedBy, Bucket: l.bucket, Key: task.String() + ".wacz",
				SourceURL: "http://a.org/", Labels: []string{"harbor"}, CapturedAt: time.Now(), ETag: "e", Size: 7, VersionID: &version,
			}
		}
		if err := l.rows.RecordSubmissions(ctx, c, submissions); err != nil {
			b.Fatal(err)
		}
	}
	bare := func() {
		atOnce(benchConcurrency, n, func(i int) {
			a, archive := admissions[i], uuid.New()
			err := pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, bareArchive, archive, a.TaskID, *a.CorrelationID, a.Bucket, a.Key, a.SourceURL, a.Labels, a.ETag, a.Size, *a.VersionID); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, bareOutbox, benchPayload(archive, a.TaskID))
				return err
			})
			if err != nil {
				b.Error(err)
			}
		})
	}
	ours := func() {
		atOnce(benchConcurrency, n, func(i int) {
			if admitted, err := l.rows.Admit(ctx, admissions[i:i+1]); err != nil || !admitted[0].New {
				b.Error(admitted, err)
			}
		})
	}
	compare(b, 5, reset, bare, ours)
}

// engine is a listing's authorization engine, and what is asked of it barely.
type engine struct {
	testkit.FGA
	client *fga.Client
	http   http.Client
}

func newEngine(b *testing.B, of testkit.FGA) *engine {
	b.Helper()
	client, err := fga.New(config.OpenFGA{APIURL: of.APIURL, StoreID: of.StoreID, ModelID: of.ModelID, Timeout: time.Minute, ListDeadline: time.Minute}, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	return &engine{FGA: of, client: client}
}

func (e *engine) ask(b *testing.B, path string, body any) {
	b.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := e.http.Post(e.APIURL+"/stores/"+e.StoreID+path, "application/json", bytes.NewReader(encoded))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if reply, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatal(resp.Status, string(reply), err)
	}
}

func member(org string) map[string]any {
	return map[string]any{"tuple_keys": []any{map[string]any{"user": "user:alice", "relation": "member", "object": "organization:" + org}}}
}

// Fifty of 10,000 archives: where all are visible against one bare BatchCheck of
// fifty with the exact time, which no cache can answer (goal 1.1; with the
// engine's caches on, which the minute of listings is made for, well under 1);
// where one of a hundred is visible against one bare ListObjects (goal 2).
func BenchmarkListing(b *testing.B) {
	const n = 10_000
	l := newBench(b, false)
	ctx := context.Background()
	e, caching := newEngine(b, testkit.OpenFGA(b)), newEngine(b, testkit.CachingOpenFGA(b))
	rows, submissions, tuples := make([][]any, n), make([][]any, n), []fga.Tuple{
		{User: fga.Organization("acme"), Relation: "parent", Object: fga.CaptureJob("1")}, {User: fga.Organization("beta"), Relation: "parent", Object: fga.CaptureJob("2")},
	}
	newest := make([]uuid.UUID, 50)
	for i := range n {
		id := uuid.New()
		if i < len(newest) {
			newest[i] = id
		}
		task, org := uuid.New(), "acme"
		if i%100 == 0 {
			org = "beta"
		}
		submissions[i] = []any{task, "c", org, time.Now()}
		rows[i] = []any{id, task, l.bucket, id.String(), "http://a.org/", time.Now().Add(-time.Duration(i) * time.Second), "e", int64(1)}
		tuples = append(tuples, fga.Tuple{User: fga.CaptureJob("1"), Relation: "parent", Object: fga.Archive(id.String())})
		if i%100 == 0 {
			tuples = append(tuples, fga.Tuple{User: fga.CaptureJob("2"), Relation: "parent", Object: fga.Archive(id.String())})
		}
	}
	if _, err := l.pool.CopyFrom(ctx, pgx.Identifier{"archives"}, []string{"id", "task_id", "bucket", "object_key", "source_url", "captured_at", "object_etag", "object_size"}, pgx.CopyFromRows(rows)); err != nil {
		b.Fatal(err)
	}
	if _, err := l.pool.CopyFrom(ctx, pgx.Identifier{"capture_submissions"}, []string{"task_id", "correlation_id", "org_id", "submitted_at"}, pgx.CopyFromRows(submissions)); err != nil {
		b.Fatal(err)
	}
	for batch := range slices.Chunk(tuples, 100) {
		if err := errors.Join(e.client.Write(ctx, batch, nil), caching.client.Write(ctx, batch, nil)); err != nil {
			b.Fatal(err)
		}
	}
	list := func(e *engine, org string) func() {
		lister := listing.New(l.rows, e.client, time.Now)
		return func() {
			page, err := lister.List(ctx, identity.Identity{Subject: "alice", Organizations: []string{org}}, listing.Request{Size: 50})
			if err != nil || len(page.Archives) != 50 || page.Next == nil {
				b.Fatal(len(page.Archives), page.Next, err)
			}
		}
	}
	batch := func(e *engine, at func() time.Time) func() {
		return func() {
			checks := make([]any, len(newest))
			for i, id := range newest {
				checks[i] = map[string]any{
					"tuple_key": map[string]any{"user": "user:alice", "relation": "can_view", "object": fga.Archive(id.String())}, "correlation_id": fmt.Sprint(i),
					"contextual_tuples": member("acme"), "context": map[string]any{"current_time": fga.Timestamp(at())},
				}
			}
			e.ask(b, "/batch-check", map[string]any{"authorization_model_id": e.ModelID, "checks": checks})
		}
	}
	minute := func() time.Time { return time.Now().Truncate(time.Minute).Add(time.Minute) }
	nothing := func() {}
	b.Run("all visible", func(b *testing.B) { compare(b, 20, nothing, batch(e, time.Now), list(e, "acme")) })
	b.Run("all visible, caches on", func(b *testing.B) { compare(b, 20, nothing, batch(caching, time.Now), list(caching, "acme")) })
	b.Run("one percent visible", func(b *testing.B) {
		compare(b, 5, nothing, func() {
			e.ask(b, "/list-objects", map[string]any{
				"authorization_model_id": e.ModelID, "user": "user:alice", "relation": "can_view", "type": "archive",
				"contextual_tuples": member("beta"), "context": map[string]any{"current_time": fga.Timestamp(minute())},
			})
		}, list(e, "beta"))
	})
}

// An upload through the sink against a bare put of the same bytes. Goal: 1.2.
func BenchmarkSinkUpload(b *testing.B) {
	const size = 64 << 20
	l := newBench(b, true)
	ctx := context.Background()
	c := l.begin(b, "http://a.org/")
	tokens := sink.NewTokens(bytes.Repeat([]byte("k"), 32))
	handler := sink.New(crawl.NewArtifacts(l.rows, l.crawls), &minio.Core{Client: l.s3}, tokens, sink.Settings{Bucket: l.bucket, Uploads: 4, Timeout: 10 * time.Minute}, prometheus.NewRegistry(), zap.NewNop(), time.Now)
	mux := http.NewServeMux()
	mux.Handle("PUT /api/sink/{crawlId}/{filename}", handler)
	server := httptest.NewServer(mux)
	b.Cleanup(server.Close)
	body := make([]byte, size)
	_, _ = rand.Read(body)
	bearer := "Bearer " + tokens.Issue(c.ID, time.Now().Add(time.Hour))
	compare(b, 9, func() {}, func() { l.put(b, "bare.wacz", body) }, func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL+"/api/sink/"+c.ID.String()+"/ours.wacz", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", bearer)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		reply, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(reply), "ours.wacz") {
			b.Fatal(resp.Status, string(reply), err)
		}
	})
}

package reconcile_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/objstore"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/reconciler/internal/reconcile"
	"github.com/muniment/muniment/services/reconciler/internal/store"
)

// fakeLedger holds holes and admits any manifest that says "success". It is
// strict: a task that is no hole is an error.
type fakeLedger struct {
	mu       sync.Mutex
	holes    map[uuid.UUID]*ledgerv1.Hole
	admitted map[uuid.UUID]int
}

func (f *fakeLedger) ListHoles(_ context.Context, after *uuid.UUID, pageSize int32) ([]*ledgerv1.Hole, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var page []*ledgerv1.Hole
	for id, h := range f.holes {
		if after == nil || bytes.Compare(id[:], after[:]) > 0 {
			page = append(page, h)
		}
	}
	slices.SortFunc(page, func(a, b *ledgerv1.Hole) int { return cmp.Compare(a.GetTaskId(), b.GetTaskId()) })
	return page[:min(len(page), int(pageSize))], nil
}

func (f *fakeLedger) AdmitManifest(_ context.Context, task uuid.UUID, manifest []byte) (*ledgerv1.AdmitManifestResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.Contains(string(manifest), "failed") {
		delete(f.holes, task)
		why := "$.status: not a success"
		return &ledgerv1.AdmitManifestResponse{Outcome: ledgerv1.AdmitOutcome_ADMIT_OUTCOME_NEVER, Reason: &why}, nil
	}
	if !strings.HasSuffix(string(manifest), "success") {
		why := "$: not a manifest"
		return &ledgerv1.AdmitManifestResponse{Outcome: ledgerv1.AdmitOutcome_ADMIT_OUTCOME_NOT_YET, Reason: &why}, nil
	}
	f.admitted[task]++
	delete(f.holes, task)
	return &ledgerv1.AdmitManifestResponse{Outcome: ledgerv1.AdmitOutcome_ADMIT_OUTCOME_ADMITTED}, nil
}

func (f *fakeLedger) hole(bucket, key string) uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := uuid.New()
	f.holes[id] = &ledgerv1.Hole{TaskId: id.String(), Bucket: bucket, ManifestKey: key}
	return id
}

func newFakeLedger() *fakeLedger {
	return &fakeLedger{holes: map[uuid.UUID]*ledgerv1.Hole{}, admitted: map[uuid.UUID]int{}}
}

type bundle struct {
	ledger *fakeLedger
	store  *store.Store
	s3     testkit.S3
	clock  time.Time
}

func setup(t *testing.T) *bundle {
	t.Helper()
	return &bundle{
		ledger: newFakeLedger(),
		store:  store.New(testkit.Postgres(t).Pool(t, "reconciler")),
		s3:     testkit.Bucket(t),
		clock:  time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
	}
}

func (b *bundle) reconciler(t *testing.T, endpoint string) *reconcile.Reconciler {
	t.Helper()
	objects, err := objstore.New(b.settings(endpoint))
	if err != nil {
		t.Fatal(err)
	}
	return reconcile.New(b.ledger, b.store, objects, reconcile.Settings{
		Every: time.Minute, PageSize: 20, Concurrency: 4, ReadTimeout: 2 * time.Second, Backoff: time.Minute, MaxBackoff: time.Hour,
	}, reconcile.NewMetrics(prometheus.NewRegistry()), zaptest.NewLogger(t), func() time.Time { return b.clock })
}

func (b *bundle) settings(endpoint string) config.Store {
	return config.Store{Endpoint: endpoint, Region: b.s3.Region, Bucket: b.s3.Bucket, AccessKey: b.s3.AccessKey, SecretKey: b.s3.SecretKey}
}

func (b *bundle) put(t *testing.T, key, body string) {
	t.Helper()
	client, err := objstore.NewS3(b.settings(b.s3.Endpoint))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutObject(t.Context(), b.s3.Bucket, key, strings.NewReader(body), int64(len(body)), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
}

func pass(t *testing.T, r *reconcile.Reconciler, force bool) reconcile.Counts {
	t.Helper()
	n, err := r.Pass(t.Context(), force)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A manifest that came late is admitted, once, and the key may hold anything.
func TestPassAdmitsWhatCameLate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.reconciler(t, b.s3.Endpoint)
	key := "org/acme/2026-11/a b+c%2F港.result.json"
	task := b.ledger.hole(b.s3.Bucket, key)

	if n := pass(t, r, false); n != (reconcile.Counts{Seen: 1, NotYet: 1}) {
		t.Fatalf("before the manifest is there: %+v", n)
	}
	b.put(t, key, "success")
	if n := pass(t, r, false); n != (reconcile.Counts{Seen: 1}) {
		t.Fatalf("before it is due again: %+v", n)
	}
	b.clock = b.clock.Add(2 * time.Minute)
	if n := pass(t, r, false); n != (reconcile.Counts{Seen: 1, Admitted: 1}) {
		t.Fatalf("once it is due: %+v", n)
	}
	if b.ledger.admitted[task] != 1 {
		t.Fatalf("admitted %d times", b.ledger.admitted[task])
	}
}

// Five replicas over the same 60 holes: each hole is tried by one of them.
func TestReplicasShareTheHoles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "m", "success")
	for range 60 {
		b.ledger.hole(b.s3.Bucket, "m")
	}
	var group sync.WaitGroup
	for range 5 {
		r := b.reconciler(t, b.s3.Endpoint)
		group.Go(func() {
			if _, err := r.Pass(t.Context(), false); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	pass(t, b.reconciler(t, b.s3.Endpoint), false)
	if len(b.ledger.admitted) != 60 {
		t.Fatalf("%d of 60 admitted", len(b.ledger.admitted))
	}
	for task, n := range b.ledger.admitted {
		if n != 1 {
			t.Errorf("%s was handed over %d times", task, n)
		}
	}
}

// A claim whose holder died frees itself.
func TestClaimFreesItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "m", "success")
	task := b.ledger.hole(b.s3.Bucket, "m")
	if _, err := b.store.Claim(t.Context(), []uuid.UUID{task}, b.clock, b.clock.Add(time.Minute), false); err != nil {
		t.Fatal(err)
	}
	r := b.reconciler(t, b.s3.Endpoint)
	if n := pass(t, r, true); n.Admitted != 0 {
		t.Fatal("took a hole that another replica holds")
	}
	b.clock = b.clock.Add(2 * time.Minute)
	if n := pass(t, r, false); n.Admitted != 1 {
		t.Fatal("the dead holder's claim was not freed")
	}
}

// forbid stands in front of the real store and answers 403 for some keys, as a
// store does that does not let us list.
func forbid(t *testing.T, endpoint string, forbidden func(key string) bool) string {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if forbidden(req.URL.Path) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<Error><Code>AccessDenied</Code></Error>`)
			return
		}
		out, err := http.NewRequestWithContext(req.Context(), req.Method, endpoint+req.URL.EscapedPath()+"?"+req.URL.RawQuery, req.Body)
		if err != nil {
			t.Error(err)
			return
		}
		out.Header = req.Header.Clone()
		out.Host = req.Host
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// T32: two of fifty manifests answer 403: the others go on and the two are
// tried again later. All of them answer 403: no try is held against anybody.
func TestT32ForbiddenIsNotABadCapture(t *testing.T) {
	t.Parallel()
	b := setup(t)
	all := false
	endpoint := forbid(t, b.s3.Endpoint, func(key string) bool { return all || strings.HasSuffix(key, "secret") })
	b.put(t, "m", "success")
	for i := range 50 {
		key := "m"
		if i%25 == 0 {
			key = "secret"
		}
		b.ledger.hole(b.s3.Bucket, key)
	}
	r := b.reconciler(t, endpoint)
	if n := pass(t, r, false); n != (reconcile.Counts{Seen: 50, Admitted: 48, NotYet: 2}) {
		t.Fatalf("with two forbidden: %+v", n)
	}

	all = true
	b.put(t, "late", "success")
	var tasks []uuid.UUID
	for range 50 {
		tasks = append(tasks, b.ledger.hole(b.s3.Bucket, "late"))
	}
	if n := pass(t, r, false); n.Admitted != 0 {
		t.Fatalf("with all forbidden: %+v", n)
	}
	b.clock = b.clock.Add(2 * time.Minute)
	tries, err := b.store.Claim(t.Context(), tasks, b.clock, b.clock, false)
	if err != nil {
		t.Fatal(err)
	}
	for task, n := range tries {
		if n != 0 {
			t.Errorf("%s: %d tries held against it", task, n)
		}
	}
	all = false
	if n := pass(t, r, false); n.Admitted != 50 {
		t.Fatalf("after the rights came back: %+v", n)
	}
}

// T33: cut-off, huge, empty and endless manifests delay nobody and are kept
// with a reason; one that can never be admitted is closed.
func TestT33BadManifestsDelayNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "good", "success")
	b.put(t, "cut", `{"taskId": "0a7`)
	b.put(t, "html", "<!DOCTYPE html><title>Sign in</title>")
	b.put(t, "huge", strings.Repeat("x", 2<<20))
	b.put(t, "never", `failed`)
	drip := make(chan struct{})
	t.Cleanup(func() { close(drip) })
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select {
		case <-drip:
		case <-req.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)

	for _, key := range []string{"cut", "html", "huge", "never", "good"} {
		b.ledger.hole(b.s3.Bucket, key)
	}
	if n := pass(t, b.reconciler(t, b.s3.Endpoint), false); n != (reconcile.Counts{Seen: 5, Admitted: 1, Never: 1, NotYet: 3}) {
		t.Fatalf("%+v", n)
	}
	endless := b.ledger.hole(b.s3.Bucket, "endless")
	start := time.Now()
	if n := pass(t, b.reconciler(t, slow.URL), false); n.Admitted != 0 {
		t.Fatalf("%+v", n)
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Fatalf("the endless manifest %s held the pass for %s", endless, took)
	}
}

package crawl_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/crawl"
)

// faults are what an object store, or something in front of it, may do to a
// reader. Each is picked by the key's beginning.
var faults = map[string]http.HandlerFunc{
	"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"drips": func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			fmt.Fprint(w, "{")
			w.(http.Flusher).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	},
	"huge": func(w http.ResponseWriter, r *http.Request) {
		block := []byte(strings.Repeat(" ", 1<<16))
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	},
	"html": func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<!DOCTYPE html><title>Please log in</title>")
	},
	"cut": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "900")
		fmt.Fprint(w, `{"taskId":"5d20d20c-9831-4b3a-9b9b-5b62d72f22c0","url":"http://a/"`)
	},
	"forbidden": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>AccessDenied</Code></Error>")
	},
}

// faultProxy stands in front of the real store and spoils the reading of keys
// whose name begins with a fault's, until it is healed.
func faultProxy(t *testing.T, s3 testkit.S3) (through testkit.S3, healed *atomic.Bool) {
	t.Helper()
	store, err := url.Parse(s3.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	healed = &atomic.Bool{}
	pass := httputil.NewSingleHostReverseProxy(store)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], "-")
		if fault := faults[name]; fault != nil && r.Method == http.MethodGet && !healed.Load() {
			fault(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close() })
	s3.Endpoint = proxy.URL
	return s3, healed
}

// spoilt is a capture whose manifest, or else whose links, are under a key that
// the proxy spoils.
func (b *bundle) spoilt(t *testing.T, fault, url string, links bool) crawl.Result {
	t.Helper()
	r := b.capture(t, url, url, nil, url+"next")
	from := &r.ManifestLocation
	if links {
		from = &r.LinksLocation
	}
	body, err := b.objects.Read(t.Context(), b.bucket, strings.TrimPrefix(**from, "s3://"+b.bucket+"/"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	location := b.put(t, fault+"-"+r.TaskID.String(), body)
	*from = &location
	return r
}

// Manifests that cannot be read delay the level by the limit of one, keep nobody
// else out, and stay holes; when the store is well again the same report, or the
// reconciler, admits them.
func TestSpoiltManifestsAreLeftToTheReconciler(t *testing.T) {
	t.Parallel()
	const one = time.Second
	s3 := testkit.Bucket(t)
	through, healed := faultProxy(t, s3)
	b := setupWith(t, through, s3.Bucket, one, 10*one)
	var seeds []string
	var results []crawl.Result
	for fault := range faults {
		seeds = append(seeds, "http://a/"+fault)
		results = append(results, b.spoilt(t, fault, "http://a/"+fault, false))
	}
	for i := range 6 {
		page := fmt.Sprintf("http://a/good%d", i)
		seeds = append(seeds, page)
		results = append(results, b.capture(t, page, page, nil))
	}
	c := b.begin(t, crawl.Order{Seeds: seeds})
	began := time.Now()
	reply := b.report(t, c.ID, 0, results...)
	if took := time.Since(began); took > one+4*time.Second {
		t.Errorf("the level took %s; one manifest may take %s", took, one)
	}
	if got, want := b.counts(t), fmt.Sprintf("submissions %d holes %d archives 6 outbox 6", len(results), len(faults)); !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if c = b.crawl(t, c.ID); c.PagesCaptured != int64(len(results)) || len(reply.Next) != len(faults) {
		t.Errorf("%d captured, next %s", c.PagesCaptured, urls(reply))
	}
	healed.Store(true)
	b.report(t, c.ID, 0, results...)
	if got, want := b.counts(t), fmt.Sprintf("submissions %[1]d holes 0 archives %[1]d outbox %[1]d", len(results)); !strings.HasPrefix(got, want) {
		t.Errorf("after healing: %s, want %s", got, want)
	}
}

// However many manifests and links files hang, the level's own limit ends it.
func TestALevelIsDelayedNoMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	const one, all = 500 * time.Millisecond, time.Second
	s3 := testkit.Bucket(t)
	through, _ := faultProxy(t, s3)
	b := setupWith(t, through, s3.Bucket, one, all)
	const n = 160
	hanging := func() *string { return new("s3://" + s3.Bucket + "/hangs-" + uuid.NewString()) }
	results := make([]crawl.Result, n)
	seeds := make([]string, n)
	for i := range n {
		seeds[i] = fmt.Sprintf("http://a/%d", i)
		results[i] = crawl.Result{URL: seeds[i], Status: "captured", TaskID: new(uuid.New()), ManifestLocation: hanging(), LinksLocation: hanging()}
	}
	results[0].LinksLocation = b.capture(t, seeds[0], seeds[0], nil, seeds[0]+"next").LinksLocation
	c := b.begin(t, crawl.Order{Seeds: seeds, MaxPages: new(int32(2 * n))})
	began := time.Now()
	reply := b.report(t, c.ID, 0, results...)
	// Without a limit, manifests would take 10 s, eight at a time, and links 20 s.
	if took := time.Since(began); took > 2*all+6*time.Second {
		t.Errorf("the level took %s; its manifests and its links may take %s each", took, all)
	}
	if got := urls(reply); got != "http://a/0next " {
		t.Errorf("next: %s", got)
	}
	if got := b.counts(t); !strings.HasPrefix(got, fmt.Sprintf("submissions %d holes %d archives 0", n, n)) {
		t.Errorf("got %s", got)
	}
}

// A store that gives no links at all must not let a crawl end as completed.
func TestNoLinksAtAllIsNoAnswer(t *testing.T) {
	t.Parallel()
	s3 := testkit.Bucket(t)
	through, healed := faultProxy(t, s3)
	b := setupWith(t, through, s3.Bucket, 300*time.Millisecond, time.Second)
	c := b.begin(t, crawl.Order{Seeds: []string{"http://a/"}})
	result := b.spoilt(t, "hangs", "http://a/", true)
	if _, err := b.Report(t.Context(), c, 0, []crawl.Result{result}); err == nil {
		t.Fatal("a level without its links was finished")
	}
	if c = b.crawl(t, c.ID); c.State != "running" || c.PagesCaptured != 0 {
		t.Errorf("%+v", c)
	}
	healed.Store(true)
	if got := urls(b.report(t, c.ID, 0, result)); got != "http://a/next " {
		t.Errorf("next: %s", got)
	}
}

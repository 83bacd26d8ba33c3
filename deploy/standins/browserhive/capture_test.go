package browserhive_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/deploy/standins/browserhive"
	"github.com/muniment/muniment/deploy/standins/site"
)

func TestCaptureOfAPage(t *testing.T) {
	t.Parallel()
	demo := httptest.NewServer(site.Handler())
	t.Cleanup(demo.Close)
	s := newSink(t)
	got := capture(t, newStandIn(t, browserhive.Settings{}), body(demo.URL+"/", s, nil))

	name := got.TaskID + "_crawl-1_harbour"
	if _, err := uuid.Parse(got.TaskID); err != nil || got.Report.TaskID != got.TaskID {
		t.Errorf("task ids %q and %q", got.TaskID, got.Report.TaskID)
	}
	if want := "s3://bucket/org/acme/2026-11/" + name + ".result.json"; got.Manifest.Location != want {
		t.Errorf("manifest at %q, want %q", got.Manifest.Location, want)
	}
	if s.lastName() != name+".result.json" {
		t.Errorf("the manifest was not put last but %s", s.lastName())
	}
	if c := got.Report.Completeness; c == nil || !c.Complete {
		t.Errorf("completeness %+v", c)
	}
	var stored report
	if err := json.Unmarshal(s.file(t, got.Manifest.Location), &stored); err != nil || stored.Status != "success" || stored.Artifacts["wacz"] == "" {
		t.Errorf("stored manifest %+v, %v", stored, err)
	}

	urls := map[string]bool{}
	for _, line := range openWACZ(t, s.file(t, got.Report.Artifacts["wacz"])).index(t) {
		urls[strings.TrimPrefix(line.URL, demo.URL)] = true
	}
	for _, want := range []string{"/", "/style.css", "/app.js", "/tide.svg"} {
		if !urls[want] {
			t.Errorf("the archive lacks %s; it has %v", want, urls)
		}
	}

	var links struct {
		FinalURL string
		Links    []struct {
			Href, Text string
			Rel        *string
		}
	}
	if err := json.Unmarshal(s.file(t, got.Report.Artifacts["links"]), &links); err != nil {
		t.Fatal(err)
	}
	byHref := map[string]*string{}
	for _, l := range links.Links {
		if _, twice := byHref[l.Href]; twice {
			t.Errorf("%s stands there twice", l.Href)
		}
		byHref[strings.TrimPrefix(l.Href, demo.URL)] = l.Rel
	}
	for _, href := range []string{"/docs/two.html#part", "/docs/%E6%B8%AF.html", "/docs/private.html"} {
		if _, there := byHref[href]; !there {
			t.Errorf("no link %s in %v", href, byHref)
		}
	}
	if rel := byHref["/docs/private.html"]; rel == nil || *rel != "nofollow" || links.FinalURL != demo.URL+"/" || len(byHref) != 8 {
		t.Errorf("links %+v", links)
	}
}

func TestRedirectAndSizeCap(t *testing.T) {
	t.Parallel()
	demo := httptest.NewServer(site.Handler())
	t.Cleanup(demo.Close)
	s := newSink(t)
	server := newStandIn(t, browserhive.Settings{})

	moved := capture(t, server, body(demo.URL+"/moved", s, nil))
	var links struct{ URL, FinalURL string }
	if err := json.Unmarshal(s.file(t, moved.Report.Artifacts["links"]), &links); err != nil ||
		links.URL != demo.URL+"/moved" || links.FinalURL != demo.URL+"/docs/two.html" {
		t.Errorf("links of a redirect: %+v, %v", links, err)
	}

	deep := capture(t, server, body(demo.URL+"/docs/deep.html", s, nil))
	c := deep.Report.Completeness
	if deep.Report.Status != "success" || c == nil || c.Complete || !slices.Equal(c.TruncatedURLs, []string{demo.URL + "/big.bin"}) || len(c.BodylessURLs) != 0 {
		t.Errorf("completeness over the cap: %+v", c)
	}
}

func TestCapturesThatFail(t *testing.T) {
	t.Parallel()
	demo := httptest.NewServer(site.Handler())
	t.Cleanup(demo.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + listener.Addr().String() + "/"
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	s := newSink(t)
	server := newStandIn(t, browserhive.Settings{NavigationTimeout: 300 * time.Millisecond})

	for _, tc := range []struct{ url, status, errorType string }{
		{demo.URL + "/missing.html", "http_error", "http"},
		{refused, "failed", "connection"},
		{demo.URL + "/slow", "timeout", "timeout"},
	} {
		got := capture(t, server, body(tc.url, s, nil))
		if got.status != http.StatusOK || got.Report.Status != tc.status || got.Report.ErrorDetails == nil || got.Report.ErrorDetails.Type != tc.errorType {
			t.Errorf("%s: %+v", tc.url, got)
		}
		if len(got.Report.Artifacts) != 0 || got.Manifest.Location == "" || !s.has(got.Manifest.Location) {
			t.Errorf("%s: artifacts %v, manifest %+v", tc.url, got.Report.Artifacts, got.Manifest)
		}
	}
}

func TestBrokenSinkIsSaid(t *testing.T) {
	t.Parallel()
	demo := httptest.NewServer(site.Handler())
	t.Cleanup(demo.Close)
	s := newSink(t)
	s.status = http.StatusServiceUnavailable
	got := capture(t, newStandIn(t, browserhive.Settings{}), body(demo.URL+"/", s, nil))
	if got.Report.Status != "failed" || got.Report.ErrorDetails.Type != "artifact_sink" || got.Manifest.Error == "" || got.Manifest.Location != "" {
		t.Errorf("got %+v", got)
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	server := newStandIn(t, browserhive.Settings{})
	page := "http://127.0.0.1:1/"
	for name, tc := range map[string]struct {
		request any
		names   string
	}{
		"not an object":   {[]string{"x"}, "JSON object"},
		"no URL":          {body("", nil, nil), "/url"},
		"other scheme":    {body("ftp://example.org/", nil, nil), "/url"},
		"format missing":  {body(page, nil, map[string]any{"captureFormats": map[string]bool{"wacz": true}}), "/captureFormats/png"},
		"screenshot":      {body(page, nil, map[string]any{"captureFormats": map[string]bool{"png": true, "webp": false, "html": false, "links": false, "mhtml": false, "wacz": true}}), "renders nothing"},
		"nothing asked":   {body(page, nil, map[string]any{"captureFormats": map[string]bool{"png": false, "webp": false, "html": false, "links": false, "mhtml": false, "wacz": false}}), "at least one"},
		"sink, no token":  {body(page, nil, map[string]any{"artifactSink": map[string]string{"url": page}}), "/artifactSink/token"},
		"label is empty":  {body(page, nil, map[string]any{"labels": []string{""}}), "/labels/0"},
		"labels no texts": {body(page, nil, map[string]any{"labels": "x"}), "labels"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := capture(t, server, tc.request)
			if got.status != http.StatusBadRequest || got.errorType != "ValidationException" || !strings.Contains(got.Message, tc.names) || got.TaskID != "" {
				t.Errorf("got %+v, want a message with %q", got, tc.names)
			}
		})
	}
}

func TestOneCaptureAtATime(t *testing.T) {
	t.Parallel()
	arrived, leave := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-leave
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(slow.Close)
	s := newSink(t)
	server := newStandIn(t, browserhive.Settings{})
	first := make(chan answer)
	go func() { first <- capture(t, server, body(slow.URL, s, nil)) }()
	<-arrived
	if !busy(t, server) {
		t.Error("/status says idle during a capture")
	}
	second := capture(t, server, body(slow.URL, s, nil))
	if second.status != http.StatusTooManyRequests || second.errorType != "Busy" {
		t.Errorf("the second capture got %+v", second)
	}
	close(leave)
	if got := <-first; got.Report.Status != "success" {
		t.Errorf("the first capture got %+v", got)
	}
	if busy(t, server) {
		t.Error("/status says busy after the capture")
	}
}

func busy(t *testing.T, server *httptest.Server) bool {
	t.Helper()
	resp, err := server.Client().Get(server.URL + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var status struct {
		Busy    bool
		Browser struct {
			URL       string
			Connected bool
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil || !status.Browser.Connected {
		t.Fatalf("status %+v, %v", status, err)
	}
	return status.Busy
}

func TestLateManifest(t *testing.T) {
	t.Parallel()
	demo := httptest.NewServer(site.Handler())
	t.Cleanup(demo.Close)
	s := newSink(t)
	server := newStandIn(t, browserhive.Settings{LateManifest: "late.html", LateManifestDelay: time.Hour})

	late := capture(t, server, body(demo.URL+"/docs/late.html", s, nil))
	if late.Report.Status != "success" || late.Manifest.Location == "" || !s.has(late.Report.Artifacts["wacz"]) {
		t.Fatalf("got %+v", late)
	}
	if s.has(late.Manifest.Location) {
		t.Fatal("the manifest is there before its time")
	}
	if other := capture(t, server, body(demo.URL+"/", s, nil)); !s.has(other.Manifest.Location) {
		t.Error("another page's manifest is late too")
	}
	for _, want := range []int{1, 0} {
		resp, err := server.Client().Post(server.URL+"/standin/manifests/release", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		var released struct{ Released int }
		if err := json.NewDecoder(resp.Body).Decode(&released); err != nil || released.Released != want {
			t.Errorf("released %d, %v; want %d", released.Released, err, want)
		}
		resp.Body.Close()
		if !s.has(late.Manifest.Location) {
			t.Fatal("the manifest is not where its capture said")
		}
	}
}

package feeds

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/feeds/feedtest"
)

const alertsPath = "/alerts/active"

var active = Params{Request: "active"}

// alertPage makes a page of alerts with the given ids that leads on to next.
func alertPage(next string, ids ...string) []byte {
	var page strings.Builder
	page.WriteString(`{"type":"FeatureCollection","features":[`)
	for i, id := range ids {
		if i > 0 {
			page.WriteByte(',')
		}
		fmt.Fprintf(&page, `{"type":"Feature","properties":{"id":%q,"sent":"2026-06-15T22:31:00-05:00"}}`, id)
	}
	page.WriteString(`]`)
	if next != "" {
		fmt.Fprintf(&page, `,"pagination":{"next":%q}`, next)
	}
	page.WriteString(`}`)
	return []byte(page.String())
}

func TestT34FailureIsNotCalm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server.Answer(alertsPath, feedtest.Answer{Status: http.StatusBadRequest, Body: []byte(`{"title":"Bad Request","status":400}`)})
	b.mustFail(t, "nws_alerts", active, http.StatusBadRequest, "bad request")

	b.server.Answer(alertsPath, feedtest.Answer{Body: []byte(`{"type":"FeatureCollection","features":[]}`)})
	read, failure := b.read(t, "nws_alerts", active)
	if failure != nil || len(read.Items) != 0 || read.NotModified || read.HTTPStatus != http.StatusOK {
		t.Errorf("a quiet answer: read %+v, failure %+v", read, failure)
	}

	slow := setup(t, "MUNIMENT_FEED_REQUEST_TIMEOUT=1s")
	slow.server.Answer(alertsPath, feedtest.Answer{Body: alertPage(""), Hang: true})
	slow.mustFail(t, "nws_alerts", active, http.StatusOK, "did not arrive in time")
}

func TestT35HalfAFeed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	more := b.server.URL + alertsPath + "?cursor=%d"
	page := func(n int, ids ...string) feedtest.Answer {
		return feedtest.Answer{Body: alertPage(fmt.Sprintf(more, n), ids...)}
	}
	last := func(ids ...string) feedtest.Answer { return feedtest.Answer{Body: alertPage("", ids...)} }
	body := alertPage("", "a", "b", "c")

	for _, c := range []struct {
		name    string
		answers []feedtest.Answer
		status  int
		words   string
	}{
		{"second page fails", []feedtest.Answer{page(1, "a"), {Status: http.StatusServiceUnavailable}}, 503, "service unavailable"},
		{"second page is no page", []feedtest.Answer{page(1, "a"), {Body: []byte("<html>")}}, 200, "web page"},
		{"second page is cut off", []feedtest.Answer{page(1, "a"), {Body: body, CutAfter: 40}}, 200, "shorter"},
		{"link leads back", []feedtest.Answer{page(1, "a"), page(1, "b")}, 200, "led back"},
		{"page is repeated", []feedtest.Answer{page(1, "a"), page(2, "a"), last("c")}, 200, "repeats"},
		{"seventh page", []feedtest.Answer{
			page(1, "1"), page(2, "2"), page(3, "3"), page(4, "4"), page(5, "5"), page(6, "6"), last("7"),
		}, 200, "more pages"},
		{"link leads elsewhere", []feedtest.Answer{{Body: alertPage("http://elsewhere.example/alerts", "a")}}, 0, "not among the source's hosts"},
		{"short body", []feedtest.Answer{{Body: body, CutAfter: len(body) - 20}}, 200, "shorter"},
		{"short body with its own length", []feedtest.Answer{{Body: body, CutAfter: len(body) - 20, CutQuietly: true}}, 200, "cut off"},
		{"gzip without its end", []feedtest.Answer{{Body: body, Gzip: true, CutAfter: 50, CutQuietly: true}}, 200, "shorter"},
		{"gzip without its checksum", []feedtest.Answer{{Body: body, Gzip: true, CutAfter: len(feedtest.Gzip(body)) - 8, CutQuietly: true}}, 200, "shorter"},
		{"said to be gzip", []feedtest.Answer{{Body: body, Header: map[string]string{"Content-Encoding": "gzip"}}}, 200, "gzip"},
		{"gzip with more behind it", []feedtest.Answer{{
			Body: append(feedtest.Gzip(body), "garbage, more of it"...), Header: map[string]string{"Content-Encoding": "gzip"},
		}}, 200, "gzip"},
		{"compressed otherwise", []feedtest.Answer{{Body: body, Header: map[string]string{"Content-Encoding": "br"}}}, 200, "not asked for"},
		{"nothing", []feedtest.Answer{{}}, 200, "empty"},
		{"nothing in gzip", []feedtest.Answer{{Gzip: true}}, 200, "empty"},
		{"not modified, unasked", []feedtest.Answer{{Status: http.StatusNotModified}}, 304, "was not asked"},
		{"part of it", []feedtest.Answer{{Status: http.StatusPartialContent, Body: body}}, 206, "partial"},
	} {
		b.server.Answer(alertsPath, c.answers...)
		read, failure := b.read(t, "nws_alerts", active)
		if failure == nil {
			t.Errorf("%s: %d items", c.name, len(read.Items))
		} else if failure.HTTPStatus != c.status || !strings.Contains(failure.Reason, c.words) {
			t.Errorf("%s: status %d, %q; want %d, %q", c.name, failure.HTTPStatus, failure.Reason, c.status, c.words)
		}
	}
}

// TestT35WholeFeeds are reads that look like halves and are none.
func TestT35WholeFeeds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	more := b.server.URL + alertsPath + "?cursor=%d"
	page := func(n int, ids ...string) feedtest.Answer {
		return feedtest.Answer{Body: alertPage(fmt.Sprintf(more, n), ids...), Gzip: n%2 == 0}
	}
	for _, c := range []struct {
		name    string
		answers []feedtest.Answer
		items   int
	}{
		{"six pages", []feedtest.Answer{
			page(1, "1"), page(2, "2"), page(3, "3"), page(4, "4"), page(5, "5"), {Body: alertPage("", "6")},
		}, 6},
		{"an item on two pages", []feedtest.Answer{page(1, "a", "b"), {Body: alertPage("", "b", "c")}}, 4},
		{"an empty page that links on", []feedtest.Answer{page(1, "a"), page(2)}, 1},
		{"an empty first page that links on", []feedtest.Answer{page(1), {Body: alertPage("", "a")}}, 1},
		{"a byte order mark", []feedtest.Answer{{Body: append([]byte("\xef\xbb\xbf"), alertPage("", "a")...)}}, 1},
	} {
		b.server.Answer(alertsPath, c.answers...)
		read, failure := b.read(t, "nws_alerts", active)
		if failure != nil || len(read.Items) != c.items || read.Bytes == 0 {
			t.Errorf("%s: read %+v, failure %+v", c.name, read, failure)
		}
	}
}

// TestT35RepeatedPageOfAMapServer is a server that ignores the offset.
func TestT35RepeatedPageOfAMapServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.settings.NIFCPerimeters.URL = b.server.URL + "/perimeters"
	for _, flag := range []string{`{"properties":{"exceededTransferLimit":true},`, `{"exceededTransferLimit":true,`} {
		first := bytes.Replace(feedtest.Fixture(t, "nifc_perimeters/four.json"), []byte("{"), []byte(flag), 1)
		b.server.Answer("/perimeters", feedtest.Answer{Body: first})
		b.mustFail(t, "nifc_perimeters", Params{Request: "current"}, http.StatusOK, "repeats")
	}
}

func TestT36StatusOKIsNotSuccess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, body := range []string{
		`{"error":{"code":498,"message":"Invalid Token","details":[]}}`,
		`{"error":{"code":500},"type":"FeatureCollection","features":[]}`,
		`{"error":"over quota"}`,
		"<!DOCTYPE html>", "Service Unavailable", "null", "[]", "{}", `"FeatureCollection"`, "   \n", "\x00",
		`{"type":"FeatureCollection"}`, `{"type":"FeatureCollection","features":null}`,
		`{"type":"FeatureCollection","features":[null]}`, `{"type":"FeatureCollection","features":[]}{}`,
	} {
		for _, source := range Sources {
			if requests := source.Requests(b.settings, nil); len(requests) > 0 {
				address, err := source.Address(b.settings, requests[0])
				if err != nil {
					t.Fatal(err)
				}
				b.server.Answer(address.Path, feedtest.Answer{
					Body: []byte(body), Header: map[string]string{"Content-Type": "application/json"},
				})
				read, failure := b.read(t, source.Name, requests[0])
				if body == "[]" && source.Name == "usgs_stn_hwms" {
					continue // a list of no marks
				}
				if failure == nil {
					t.Errorf("%s took %q for %d items", source.Name, body, len(read.Items))
				} else if failure.HTTPStatus != http.StatusOK || failure.Reason == "" {
					t.Errorf("%s: failure %+v", source.Name, failure)
				}
			}
		}
	}
}

func TestT37UpdatesAreProductsOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server.Answer(alertsPath, feedtest.Answer{Body: feedtest.Fixture(t, "nws_alerts/update-cancel.json")})
	read, failure := b.read(t, "nws_alerts", active)
	if failure != nil || len(read.Items) != 3 {
		t.Fatalf("read %+v, failure %+v", read, failure)
	}
	ids := map[string]bool{}
	for _, item := range read.Items {
		ids[item.ProductID] = true
		if !bytes.Contains(feedtest.Fixture(t, "nws_alerts/update-cancel.json"), item.Body) {
			t.Errorf("%s is not in the bytes that were received", item.ProductID)
		}
	}
	if len(ids) != 3 || !bytes.Contains(read.Items[2].Body, []byte(`"references": [`)) {
		t.Errorf("products %v, the last one %s", ids, read.Items[2].Body)
	}
}

func TestT38PoliteReading(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.read(t, "nws_alerts", active)
	for _, r := range b.server.Requests(alertsPath) {
		if agent := r.UserAgent(); agent != "muniment-feed-archiver/test (tests@example.org)" {
			t.Errorf("User-Agent %q", agent)
		}
		if r.Header.Get("Accept") != "application/geo+json" || r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("headers %v", r.Header)
		}
	}

	b.server.Answer(alertsPath, feedtest.Answer{Status: http.StatusForbidden, Body: []byte("<html><title>Access Denied</title></html>")})
	b.mustFail(t, "nws_alerts", active, http.StatusForbidden, "forbidden")

	b.server.Answer("/CurrentStorms.json", feedtest.Answer{
		Body:   []byte(`{"activeStorms":[]}`),
		Header: map[string]string{"Date": "Tue, 16 Jun 2026 06:05:01 GMT", "Age": "120", "Last-Modified": "Thu, 11 Jun 2026 13:48:00 GMT"},
	})
	read, failure := b.read(t, "nhc_current_storms", Params{Request: "current"})
	if failure != nil {
		t.Fatal(failure.Reason)
	}
	if want := (archive.Headers{Date: "Tue, 16 Jun 2026 06:05:01 GMT", Age: "120", LastModified: "Thu, 11 Jun 2026 13:48:00 GMT"}); read.Headers != want {
		t.Errorf("headers %+v, want %+v", read.Headers, want)
	}
}

// TestT38RetryAfter asks a host that said when to come again no earlier, for
// whatever source.
func TestT38RetryAfter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server.Answer(alertsPath, feedtest.Answer{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "120"}})
	failure := b.mustFail(t, "nws_alerts", active, http.StatusTooManyRequests, "too many requests")
	if want := readNow.Add(2 * time.Minute); !failure.RetryAfter.Equal(want) {
		t.Errorf("to be asked again at %s, want %s", failure.RetryAfter, want)
	}
	asked := len(b.server.Requests(""))
	failure = b.mustFail(t, "nhc_current_storms", Params{Request: "current"}, 0, "not to be asked before 2026-08-02T03:06:05Z")
	if !failure.RetryAfter.Equal(readNow.Add(2*time.Minute)) || len(b.server.Requests("")) != asked {
		t.Errorf("the host was asked all the same, or the failure does not say when: %+v", failure)
	}
}

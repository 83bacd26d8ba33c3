package feeds

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/feeds/feedtest"
	"github.com/muniment/muniment/services/feed-archiver/internal/fetch"
)

// readNow is the clock of every test.
var readNow = time.Date(2026, time.August, 2, 3, 4, 5, 0, time.UTC)

type bundle struct {
	server   *feedtest.Server
	settings *Settings
	reader   *Reader
}

// setup starts the publishers and a reader of them, with further settings.
func setup(t *testing.T, environ ...string) *bundle {
	t.Helper()
	server := feedtest.New(t)
	var settings struct {
		fetch.Settings
		Feeds Settings
	}
	if err := config.Load("MUNIMENT_FEED_", append(server.Environ(), environ...), &settings, nil); err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return readNow }
	client, err := fetch.New(settings.Settings, "test", now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &bundle{server: server, settings: &settings.Feeds, reader: NewReader(client, &settings.Feeds, now)}
}

// read reads a request of a source whose name has only one.
func (b *bundle) read(t *testing.T, name string, p Params) (*archive.Read, *archive.Failure) {
	t.Helper()
	source, ok := Find(name)
	if !ok {
		t.Fatalf("no source %s", name)
	}
	read, failure := b.reader.Read(t.Context(), source, p, nil)
	if (read == nil) == (failure == nil) {
		t.Fatalf("read %v and failure %v", read, failure)
	}
	return read, failure
}

// mustFail reads and wants a failure of that status whose reason has the words.
func (b *bundle) mustFail(t *testing.T, name string, p Params, status int, words string) *archive.Failure {
	t.Helper()
	read, failure := b.read(t, name, p)
	if failure == nil {
		t.Fatalf("the read was not refused: %d items", len(read.Items))
	}
	if failure.HTTPStatus != status || !strings.Contains(failure.Reason, words) {
		t.Fatalf("failed with status %d, %q; want %d, %q", failure.HTTPStatus, failure.Reason, status, words)
	}
	return failure
}

// TestEverySource reads every request of every source from its publisher, and
// again with what the first read left to ask with.
func TestEverySource(t *testing.T) {
	t.Parallel()
	b := setup(t)
	want := map[string]string{
		"nws_alerts active":                                             "4 items, unconditional",
		"usgs_earthquakes all_day":                                      "3 items, then 3 items",
		"nhc_current_storms current":                                    "2 items, then not modified",
		"nhc_atcf_best_track al052026":                                  "1 items, then not modified",
		"nhc_atcf_best_track ep072026":                                  "failed with 404",
		"spc_day1_outlook day1":                                         "3 items, then not modified",
		"nifc_perimeters current":                                       "4 items, unconditional",
		"nws_dat_surveys layer_0":                                       "3 items, then 3 items",
		"nws_dat_surveys layer_1":                                       "1 items, then 1 items",
		"nws_dat_surveys layer_2":                                       "0 items, then 0 items",
		"usgs_stn_hwms all":                                             "2 items, then 2 items",
		"usgs_shakemap_products us70000001":                             "3 items, then 3 items",
		"usgs_shakemap_contours us70000001:us:us70000001:1781500010000": "1 items, then not modified",
		"nhc_wind_swath al052026":                                       "1 items, then not modified",
		"nhc_forecast_cone al052026":                                    "1 items, then not modified",
		"nhc_surge peak_surge":                                          "1 items, then 1 items",
		"nhc_surge kml_al052026":                                        "1 items, then not modified",
		"openfema_declarations all":                                     "7 items, unconditional",
	}
	for _, product := range []string{"VIIRS_SNPP_NRT", "VIIRS_NOAA20_NRT", "VIIRS_NOAA21_NRT", "MODIS_NRT"} {
		for _, area := range []string{"usa", "alaska", "hawaii"} {
			want["nasa_firms "+product+":"+area] = map[bool]string{true: "0 items, unconditional", false: "3 items, unconditional"}[product == "MODIS_NRT"]
		}
	}
	held := map[string][]archive.Held{}
	for _, source := range Sources {
		for _, p := range source.Requests(b.settings, held[source.Follows]) {
			name := source.Name + " " + p.Request
			got, items := readTwice(t, b, source, p)
			if got != want[name] {
				t.Errorf("%s: %s; want %s", name, got, want[name])
			}
			delete(want, name)
			for _, item := range items {
				held[source.Name] = append(held[source.Name], archive.Held{ProductID: item.ProductID, Body: string(item.Body)})
			}
		}
	}
	for name := range want {
		t.Errorf("%s was not read", name)
	}
}

func readTwice(t *testing.T, b *bundle, source *Source, p Params) (string, []archive.Item) {
	t.Helper()
	first, failure := b.reader.Read(t.Context(), source, p, nil)
	if failure != nil {
		return fmt.Sprintf("failed with %d", failure.HTTPStatus), nil
	}
	if first.Source != source.Name || first.Request != p.Request || !first.FetchedAt.Equal(readNow) || first.Headers.Date == "" {
		t.Errorf("%s: the read is not labelled: %s %s %s %+v", p.Request, first.Source, first.Request, first.FetchedAt, first.Headers)
	}
	if first.Validator == nil {
		return fmt.Sprintf("%d items, unconditional", len(first.Items)), first.Items
	}
	second, failure := b.reader.Read(t.Context(), source, p, first.Validator)
	switch {
	case failure != nil:
		return failure.Reason, nil
	case second.NotModified && second.HTTPStatus == http.StatusNotModified && second.Validator != nil:
		return fmt.Sprintf("%d items, then not modified", len(first.Items)), first.Items
	}
	return fmt.Sprintf("%d items, then %d items", len(first.Items), len(second.Items)), first.Items
}

// TestValidatorBelongsToItsURL keeps a validator from being sent to another
// address: the bundle of the next advisory is another file.
func TestValidatorBelongsToItsURL(t *testing.T) {
	t.Parallel()
	b := setup(t)
	source, _ := Find("nhc_current_storms")
	first, failure := b.reader.Read(t.Context(), source, Params{Request: "current"}, nil)
	if failure != nil {
		t.Fatal(failure.Reason)
	}
	moved := *first.Validator
	moved.URLHash = strings.Repeat("0", 64)
	second, failure := b.reader.Read(t.Context(), source, Params{Request: "current"}, &moved)
	if failure != nil || second.NotModified || len(second.Items) != 2 {
		t.Errorf("another address's validator was sent: %+v %+v", second, failure)
	}
}

// TestABareNotModifiedKeepsTheValidator is a 304 without the validators that it
// was asked with: they still hold.
func TestABareNotModifiedKeepsTheValidator(t *testing.T) {
	t.Parallel()
	b := setup(t)
	source, _ := Find("nhc_current_storms")
	first, failure := b.reader.Read(t.Context(), source, Params{Request: "current"}, nil)
	if failure != nil {
		t.Fatal(failure.Reason)
	}
	b.server.Answer("/CurrentStorms.json", feedtest.Answer{Status: http.StatusNotModified})
	second, failure := b.reader.Read(t.Context(), source, Params{Request: "current"}, first.Validator)
	if failure != nil || !second.NotModified || second.Validator == nil || *second.Validator != *first.Validator {
		t.Errorf("read %+v, failure %+v", second, failure)
	}
}

// TestDependentsFollowTheirReads asks what the followed read held, and nothing
// when it held nothing.
func TestDependentsFollowTheirReads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, source := range Sources {
		if source.Follows == "" {
			continue
		}
		if _, ok := Find(source.Follows); !ok {
			t.Errorf("%s follows %s, which is no source", source.Name, source.Follows)
		}
		if requests := source.Requests(b.settings, nil); len(requests) > 0 {
			t.Errorf("%s asks for %d things although nothing was held", source.Name, len(requests))
		}
	}
}

// TestReadTimeout bounds a read by its own limit, whatever each page takes.
func TestReadTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t, "MUNIMENT_FEED_READ_TIMEOUT=1s")
	b.server.Answer("/CurrentStorms.json", feedtest.Answer{Body: []byte(`{"activeStorms":[]}`), Hang: true})
	began := time.Now()
	b.mustFail(t, "nhc_current_storms", Params{Request: "current"}, http.StatusOK, "in time")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("a read of at most 1s took %s", took)
	}
}

func TestStoppingIsSaid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	source, _ := Find("nhc_current_storms")
	_, failure := b.reader.Read(ctx, source, Params{Request: "current"}, nil)
	if failure == nil || !strings.Contains(failure.Reason, "stopping") {
		t.Errorf("failure %+v", failure)
	}
}

package feeds

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muniment/muniment/services/feed-archiver/internal/feeds/feedtest"
)

// TestKeyIsNowhere makes the hotspot service fail in every way and looks for
// its key in what is left.
func TestKeyIsNowhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	source, _ := Find("nasa_firms")
	p := source.Requests(b.settings, nil)[0]
	address, err := source.Address(b.settings, p)
	if err != nil || !strings.Contains(address.String(), feedtest.MapKey) {
		t.Fatalf("the address %s does not hold the key, error %v", address, err)
	}
	echo := "latitude,longitude,acq_date,acq_time,satellite\n1,2,2026-01-01,0000," + feedtest.MapKey + "\n"
	for name, answer := range map[string]feedtest.Answer{
		"echo in a row":      {Body: []byte(echo)},
		"echo in an error":   {Status: http.StatusBadRequest, Body: []byte("bad key " + feedtest.MapKey)},
		"redirect elsewhere": {Status: http.StatusFound, Header: map[string]string{"Location": "http://elsewhere.example/" + feedtest.MapKey}},
		"redirect to itself": {Status: http.StatusFound, Header: map[string]string{"Location": address.String()}},
		"bad redirect":       {Status: http.StatusFound, Header: map[string]string{"Location": "http://[" + feedtest.MapKey}},
		"short body":         {Body: []byte(echo), CutAfter: 20},
		"rejected key":       {Body: []byte("Invalid MAP_KEY.")},
		"server error":       {Status: http.StatusInternalServerError},
	} {
		b.server.Answer(address.Path, answer)
		_, failure := b.read(t, "nasa_firms", p)
		if failure == nil {
			t.Errorf("%s was not refused", name)
		} else if text := fmt.Sprintf("%+v", *failure); strings.Contains(text, feedtest.MapKey) {
			t.Errorf("%s: the key is in %s", name, text)
		}
	}

	b.server.Answer(address.Path)
	read, failure := b.read(t, "nasa_firms", p)
	if failure != nil || len(read.Items) != 3 {
		t.Fatalf("read %+v, failure %+v", read, failure)
	}
	for _, item := range read.Items {
		if strings.Contains(item.ProductID+string(item.Body), feedtest.MapKey) {
			t.Error("the key is in an item")
		}
	}
	read.Items = nil
	if text := fmt.Sprintf("%+v %+v", *read, read.Validator); strings.Contains(text, feedtest.MapKey) {
		t.Errorf("the key is in %s", text)
	}
}

// TestKeyIsNotInTransportErrors reads from a port where nobody listens: the
// HTTP client's own error begins with the URL.
func TestKeyIsNotInTransportErrors(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.settings.NASAFIRMS.URL = "http://127.0.0.1:1/"
	source, _ := Find("nasa_firms")
	failure := b.mustFail(t, "nasa_firms", source.Requests(b.settings, nil)[0], 0, "no connection")
	if strings.Contains(failure.Reason, feedtest.MapKey) {
		t.Errorf("the key is in %s", failure.Reason)
	}
}

func TestWithoutAKeyNothingIsAsked(t *testing.T) {
	t.Parallel()
	source, _ := Find("nasa_firms")
	settings := load(t)
	if requests := source.Requests(settings, nil); len(requests) > 0 {
		t.Errorf("%d requests", len(requests))
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(feedtest.MapKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings = load(t, "MUNIMENT_FEED_NASA_FIRMS_MAP_KEY_FILE="+key, "MUNIMENT_FEED_NASA_FIRMS_AREAS=box=-10,-20,30.5,40")
	u, err := source.Address(settings, source.Requests(settings, nil)[0])
	want := "https://firms.modaps.eosdis.nasa.gov/api/area/csv/" + feedtest.MapKey + "/VIIRS_SNPP_NRT/-10,-20,30.5,40/1"
	if err != nil || u.String() != want {
		t.Errorf("address %v, error %v, want %s", u, err, want)
	}
	if _, err := url.Parse(u.String()); err != nil {
		t.Error(err)
	}
}

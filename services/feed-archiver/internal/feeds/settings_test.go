package feeds

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// load reads settings from an environment of just these variables.
func load(t *testing.T, environ ...string) *Settings {
	t.Helper()
	settings := new(Settings)
	if err := config.Load("MUNIMENT_FEED_", environ, settings, nil); err != nil {
		t.Fatal(err)
	}
	return settings
}

func TestSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ variable, words string }{
		{"NWS_ALERTS_URL=api.weather.gov", "NWS_ALERTS_URL must be"},
		{"SPC_DAY1_OUTLOOK_URL=https://user:secret@example.org/", "SPC_DAY1_OUTLOOK_URL must be"},
		{"NHC_SURGE_EVERY=-1s", "NHC_SURGE_EVERY"},
		{"NWS_ALERTS_QUERIES=active;active", "a name that no other has"},
		{"NWS_ALERTS_QUERIES=hail", "none of the known kinds"},
		{"NWS_ALERTS_QUERIES=x?event=%ZZ", "not in URL form"},
		{"NASA_FIRMS_AREAS=x=1,2,3", "neither world nor"},
		{"NASA_FIRMS_AREAS=x=1,2,3,400", "neither world nor"},
		{"NASA_FIRMS_DAYS=10", "NASA_FIRMS_DAYS"},
		{"USGS_STN_HWMS_FORMAT=xml", "USGS_STN_HWMS_FORMAT"},
		{"NIFC_PERIMETERS_PAGE_SIZE=0", "NIFC_PERIMETERS_PAGE_SIZE"},
		{"OPENFEMA_DECLARATIONS_PAGE_SIZE=20000", "OPENFEMA_DECLARATIONS_PAGE_SIZE"},
		{"READ_TIMEOUT=0s", "READ_TIMEOUT"},
		{"NWS_ALERT_URL=https://example.org/", "is not a setting"},
	} {
		err := config.Load("MUNIMENT_FEED_", []string{"MUNIMENT_FEED_" + c.variable}, new(Settings), nil)
		if err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v", c.variable, err)
		}
	}
}

// TestAddresses shows where requests go, by default and with each form of
// override.
func TestAddresses(t *testing.T) {
	t.Parallel()
	storm := Params{
		Request: "al052026", Storm: "al052026", File: "al052026_5day_003.zip",
		Link: "https://www.nhc.noaa.gov/gis/forecast/archive/al052026_5day_003.zip",
	}
	event := Params{Request: "us1", Event: "us1"}
	for _, c := range []struct {
		source, override string
		p                Params
		want             string
	}{
		{"nws_alerts", "", active, "https://api.weather.gov/alerts/active"},
		{"nws_alerts", "", Params{Query: "event=Flood+Warning"}, "https://api.weather.gov/alerts/active?event=Flood+Warning"},
		{"nws_alerts", "http://localhost:1/x?status=actual", active, "http://localhost:1/x?status=actual"},
		{"nws_alerts", "http://localhost:1", active, "http://localhost:1/alerts/active"},
		{"usgs_earthquakes", "", Params{Request: "all_hour"}, "https://earthquake.usgs.gov/earthquakes/feed/v1.0/summary/all_hour.geojson"},
		{"usgs_earthquakes", "http://localhost:1/q/{feed}", Params{Request: "all_hour"}, "http://localhost:1/q/all_hour"},
		{"nhc_atcf_best_track", "", storm, "https://ftp.nhc.noaa.gov/atcf/btk/bal052026.dat"},
		{"nhc_atcf_best_track", "http://localhost:1/sub/", storm, "http://localhost:1/sub/atcf/btk/bal052026.dat"},
		{"nhc_forecast_cone", "", storm, storm.Link},
		{"nhc_forecast_cone", "http://localhost:1/", storm, "http://localhost:1/gis/forecast/archive/al052026_5day_003.zip"},
		{"nhc_forecast_cone", "http://localhost:1/{storm}/{file}", storm, "http://localhost:1/al052026/al052026_5day_003.zip"},
		{"nhc_surge", "http://localhost:1/layer", storm, "http://localhost:1/gis/forecast/archive/al052026_5day_003.zip"},
		{"usgs_shakemap_products", "https://earthquake.usgs.gov/fdsnws/event/1/query?format=geojson&eventid={event}", event, "https://earthquake.usgs.gov/fdsnws/event/1/query?format=geojson&eventid=us1"},
		{"usgs_shakemap_contours", "", Params{Link: "http://earthquake.usgs.gov/p/cont_mmi.json"}, "https://earthquake.usgs.gov/p/cont_mmi.json"},
		{"usgs_stn_hwms", "", Params{}, "https://stn.wim.usgs.gov/STNServices/HWMs.json"},
		{"usgs_stn_hwms", "", Params{Event: "129"}, "https://stn.wim.usgs.gov/STNServices/FilteredHWMs.json?Event=129"},
	} {
		environ := []string{}
		if c.override != "" {
			environ = append(environ, "MUNIMENT_FEED_"+strings.ToUpper(c.source)+"_URL="+c.override)
		}
		source, _ := Find(c.source)
		got, err := source.Address(load(t, environ...), c.p)
		if err != nil || got.String() != c.want {
			t.Errorf("%s with %q: %v, error %v; want %s", c.source, c.override, got, err, c.want)
		}
	}
}

// TestQueryParameters are what must be asked of services whose pages are only
// right with them.
func TestQueryParameters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source string
		want   url.Values
	}{
		{"nifc_perimeters", url.Values{"where": {"1=1"}, "outFields": {"*"}, "f": {"geojson"}, "orderByFields": {"OBJECTID"}, "resultRecordCount": {"500"}}},
		{"nws_dat_surveys", url.Values{"where": {"stormdate >= CURRENT_TIMESTAMP - INTERVAL '400' DAY"}, "orderByFields": {"objectid"}}},
		{"openfema_declarations", url.Values{"$top": {"10000"}, "$skip": {"0"}, "$orderby": {"id"}, "$count": {"true"}}},
	} {
		source, _ := Find(c.source)
		settings := load(t)
		got, err := source.Address(settings, source.Requests(settings, nil)[0])
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range c.want {
			if query := got.Query(); !slices.Equal(query[name], values) {
				t.Errorf("%s asks for %s=%v, want %v", c.source, name, query[name], values)
			}
		}
	}
}

func TestRequestsFollowSettings(t *testing.T) {
	t.Parallel()
	settings := load(t,
		"MUNIMENT_FEED_NWS_ALERTS_QUERIES=active; storm ;tropical;heat_wind;fire_weather;flood;winter;mine?event=Tornado%20Warning",
		"MUNIMENT_FEED_USGS_EARTHQUAKES_FEEDS=all_hour,all_month",
		"MUNIMENT_FEED_NWS_DAT_SURVEYS_LAYERS=1",
		"MUNIMENT_FEED_USGS_STN_HWMS_EVENTS=129,133",
		"MUNIMENT_FEED_NHC_SURGE_EVERY=7m",
	)
	for source, want := range map[string]string{
		"nws_alerts":       "active storm tropical heat_wind fire_weather flood winter mine",
		"usgs_earthquakes": "all_hour all_month",
		"nws_dat_surveys":  "layer_1",
		"usgs_stn_hwms":    "event_129 event_133",
	} {
		s, _ := Find(source)
		var names []string
		for _, p := range s.Requests(settings, nil) {
			names = append(names, p.Request)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
	surge, _ := Find("nhc_surge")
	track, _ := Find("nhc_atcf_best_track")
	if surge.Interval(settings) != 7*time.Minute || track.Interval(settings) != track.Every {
		t.Errorf("intervals %s and %s", surge.Interval(settings), track.Interval(settings))
	}
}

// TestSurgeMember takes the peak-surge layer by what its features are believed
// to have, and any layer where the setting says so.
func TestSurgeMember(t *testing.T) {
	t.Parallel()
	surge, _ := Find("nhc_surge")
	storm := []archive.Held{{ProductID: "al052026", Body: `{}`}}
	body := []byte(`{"type":"FeatureCollection","features":[{"type":"Feature","geometry":null,"properties":{"objectid":2}}]}`)
	for member, taken := range map[string]bool{"": false, "OBJECTID": true, "depth": false} {
		settings := load(t)
		if member != "" {
			settings = load(t, "MUNIMENT_FEED_NHC_SURGE_MEMBER="+member)
		}
		page, err := surge.Split(body, surge.Requests(settings, storm)[0])
		if taken != (err == nil) || taken != (len(page.Items) == 1) {
			t.Errorf("with %q: %d items, error %v", member, len(page.Items), err)
		}
	}
}

// TestHosts keeps a source to its publisher, or to its override.
func TestHosts(t *testing.T) {
	t.Parallel()
	cone, _ := Find("nhc_forecast_cone")
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{nil, "www.nhc.noaa.gov"},
		{[]string{"MUNIMENT_FEED_NHC_FORECAST_CONE_URL=http://127.0.0.1:9/"}, "127.0.0.1:9"},
		{[]string{"MUNIMENT_FEED_NHC_CURRENT_STORMS_URL=http://127.0.0.1:8/s.json"}, "www.nhc.noaa.gov 127.0.0.1:8"},
	} {
		if got := strings.Join(cone.hosts(load(t, c.environ...)), " "); got != c.want {
			t.Errorf("%v: %s, want %s", c.environ, got, c.want)
		}
	}
}

// TestSourcesAreOfOneShape checks what every entry of the list must have.
func TestSourcesAreOfOneShape(t *testing.T) {
	t.Parallel()
	if len(Sources) != 15 {
		t.Errorf("%d sources, want 15", len(Sources))
	}
	seen := map[string]bool{}
	for _, s := range Sources {
		if s.Name == "" || s.Rights == "" || s.Accept == "" || len(s.Hosts) == 0 || s.Every <= 0 ||
			s.MaxPages < 1 || s.MaxBytes < 1 || s.Requests == nil || s.Address == nil || s.Split == nil || s.endpoint == nil {
			t.Errorf("%s is not complete", s.Name)
		}
		if seen[s.Name] {
			t.Errorf("%s is there twice", s.Name)
		}
		seen[s.Name] = true
		if u, err := url.Parse("https://" + s.Hosts[0]); err != nil || u.Path != "" {
			t.Errorf("%s: %s is not a host", s.Name, s.Hosts[0])
		}
	}
}

// TestAnEventIsAskedForOnce although two summary feeds held it.
func TestAnEventIsAskedForOnce(t *testing.T) {
	t.Parallel()
	products, _ := Find("usgs_shakemap_products")
	event := archive.Held{ProductID: "us1", Body: `{"properties":{"types":",origin,shakemap,"}}`}
	other := archive.Held{ProductID: "us2", Body: `{"properties":{"types":",origin,"}}`}
	if requests := products.Requests(load(t), []archive.Held{event, other, event}); len(requests) != 1 || requests[0].Request != "us1" {
		t.Errorf("requests %+v", requests)
	}
}

// TestLinksThatAreNone are followed nowhere.
func TestLinksThatAreNone(t *testing.T) {
	t.Parallel()
	cone, _ := Find("nhc_forecast_cone")
	for _, body := range []string{
		`{}`, `{"trackCone":null}`, `{"trackCone":{"zipFile":null}}`, `{"trackCone":{"zipFile":"a.zip"}}`,
		`{"trackCone":{"zipFile":"https://www.nhc.noaa.gov/"}}`, `{"trackCone":"https://www.nhc.noaa.gov/a.zip"}`,
	} {
		if requests := cone.Requests(load(t), []archive.Held{{ProductID: "al052026", Body: body}}); len(requests) > 0 {
			t.Errorf("%s leads to %+v", body, requests)
		}
	}
	if requests := cone.Requests(load(t), []archive.Held{{ProductID: "../../x", Body: `{"trackCone":{"zipFile":"https://www.nhc.noaa.gov/a.zip"}}`}}); len(requests) > 0 {
		t.Error("a storm's id that is none was followed")
	}
}

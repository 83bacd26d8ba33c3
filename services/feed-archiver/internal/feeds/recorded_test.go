package feeds

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// recorded is the number of products in each recorded body, counted by hand
// (features, rows, entries, or one for a body that is kept whole).
var recorded = map[string]int{
	"nasa_firms/MODIS_C6_1_USA_contiguous_and_Hawaii_24h-a.csv":                        1049,
	"nasa_firms/VIIRS_NOAA21-24h-form-2026-09-26-EXCERPT.csv":                          5,
	"nasa_firms/header-only-DERIVED.csv":                                               0,
	"nhc_atcf_best_track/bal092022-ian-final.dat":                                      1,
	"nhc_atcf_best_track/bal282020-zeta-adv12.dat":                                     1,
	"nhc_atcf_best_track/bal282020-zeta-adv13.dat":                                     1,
	"nhc_atcf_best_track/bal282020-zeta-adv15.dat":                                     1,
	"nhc_current_storms/no-storms.json":                                                0,
	"nhc_current_storms/one-storm-genevieve-2026-08-02.json":                           1,
	"nhc_current_storms/three-storms-helene-2024-09-27-1038Z.json":                     3,
	"nhc_forecast_cone/ep052026_5day_014.zip":                                          1,
	"nhc_wind_swath/ep052026_best_track.zip":                                           1,
	"nifc_perimeters/2022-01-15-1716Z.json":                                            6,
	"nifc_perimeters/2022-01-15-1815Z.json":                                            6,
	"nifc_perimeters/2024-01-21-one-perimeter.json":                                    1,
	"nifc_perimeters/2024-01-23-empty.json":                                            0,
	"nifc_perimeters/2024-01-28-one-perimeter.json":                                    1,
	"nifc_perimeters/2025-01-19.json":                                                  5,
	"nws_alerts/empty-area-AZ.json":                                                    0,
	"nws_alerts/empty-event-filter-2026-06-15.json":                                    0,
	"nws_alerts/national-1038-alerts-2024-11-TIMES-TOKENISED.json.gz":                  1038,
	"nws_alerts/national-246-alerts-2026-05-TIMES-TOKENISED.json":                      246,
	"nws_alerts/point-AZ-2024-07-18-heat.json":                                         2,
	"nws_alerts/point-one-alert-2024-01.json":                                          1,
	"nws_alerts/zone-ORZ004-2019-12-20-one-alert.json":                                 1,
	"nws_alerts/zone-ORZ004-2019-12-20-two-alerts.json":                                2,
	"nws_dat_surveys/damage-lines-2020-03-03-EXCERPT.geojson":                          2,
	"nws_dat_surveys/damage-points-stlouis-962-PLACEHOLDER-USERS.geojson":              962,
	"openfema_declarations/DisasterDeclarationsSummaries-v2-1000-rows-2022-10-28.json": 1000,
	"openfema_declarations/reload-first-40-rows-a-DERIVED.json":                        40,
	"spc_day1_outlook/day1otlk_20210317_1200_cat.lyr.geojson":                          6,
	"usgs_earthquakes/all_day-2014-02-05.geojson":                                      198,
	"usgs_earthquakes/all_hour-2017-12-03.geojson":                                     8,
	"usgs_earthquakes/all_hour-2021-12-04.geojson":                                     14,
	"usgs_earthquakes/fdsn-query-2018-mixed.json":                                      3,
	"usgs_earthquakes/fdsn-query-empty.json":                                           0,
	"usgs_earthquakes/fdsn-query-one-event-northridge.json":                            1,
	"usgs_earthquakes/revision-pair-first-CONSTRUCTED.json":                            1,
	"usgs_earthquakes/revision-pair-second-CONSTRUCTED.json":                           1,
	"usgs_earthquakes/significant_week-2017-12-11.geojson":                             4,
	"usgs_shakemap_contours/cont_mmi-integration_test_0001-rev-a.json":                 1,
	"usgs_shakemap_contours/cont_mmi-integration_test_0001-rev-b.json":                 1,
	"usgs_shakemap_contours/cont_mmi-iscgem882673.json":                                1,
	"usgs_shakemap_products/detail-ci3144585-northridge.json":                          2,
	"usgs_shakemap_products/detail-nc72852151-with-superseded.json":                    8,
	"usgs_shakemap_products/detail-nn00536452-2016-03-21.json":                         1,
	"usgs_stn_hwms/FilteredHWMs-louisiana-2016-585-rows-PLACEHOLDERS.csv":              585,
	"usgs_stn_hwms/FilteredHWMs-louisiana-2016-first-25-DERIVED.json":                  25,
}

// mustRefuse are the names of files that hold no body of the feed.
var mustRefuse = regexp.MustCompile(`ERROR|EMPTY|DESCRIPTION|CONVERTED|OTHER-BUNDLE|^info-|^one-feature`)

// TestRecordedBodies runs every recorded body through its source. A file that
// is neither counted above nor named as one to refuse fails the test.
func TestRecordedBodies(t *testing.T) {
	t.Parallel()
	folder := sharedFeeds(t)
	for _, source := range Sources {
		files, err := os.ReadDir(filepath.Join(folder, source.Name))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := source.Name + "/" + file.Name()
			body, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			items, err := source.Replay(file.Name(), body, Params{})
			want, counted := recorded[name]
			switch {
			case mustRefuse.MatchString(file.Name()):
				if !errors.Is(err, ErrRefused) {
					t.Errorf("%s was not refused: %d items, error %v", name, len(items), err)
				}
			case !counted:
				t.Errorf("%s is not counted: %d items, error %v", name, len(items), err)
			case err != nil || len(items) != want:
				t.Errorf("%s: %d items, want %d, error %v", name, len(items), want, err)
			}
			for _, item := range items {
				if checkName(item.ProductID) != nil || len(item.Body) == 0 {
					t.Fatalf("%s: an item without a name or a body", name)
				}
			}
		}
	}
}

// TestRecordedBodiesAreNoOtherFeeds gives every recorded body to every other
// source: one with items is refused, and an empty collection can be anybody's.
func TestRecordedBodiesAreNoOtherFeeds(t *testing.T) {
	t.Parallel()
	folder := sharedFeeds(t)
	for name := range recorded {
		body, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range Sources {
			if source.Name == filepath.Dir(name) {
				continue
			}
			items, err := source.Replay(filepath.Base(name), body, Params{Storm: "al092022", Event: "us1", Version: "1", File: "a.zip"})
			if len(items) > 0 || (err == nil && recorded[name] > 0) {
				t.Errorf("%s takes %s for %d items, error %v", source.Name, name, len(items), err)
			}
		}
	}
}

// TestRecordedNames pins how recorded products are named and dated.
func TestRecordedNames(t *testing.T) {
	t.Parallel()
	folder := sharedFeeds(t)
	for _, c := range []struct {
		source, file, id, key, issued string
		p                             Params
	}{
		{source: "nws_alerts", file: "point-AZ-2024-07-18-heat.json", id: "urn:oid:2.49.0.1.840.0.505a7220d91b00eb1d75a3fb4f339f825496a522.004.1", issued: "2024-07-18T19:47:00Z"},
		{source: "nws_alerts", file: "zone-ORZ004-2019-12-20-one-alert.json", id: "NWS-IDP-PROD-3965873-3369046", issued: "2019-12-20T21:34:00Z"},
		{source: "nws_alerts", file: "national-246-alerts-2026-05-TIMES-TOKENISED.json", id: "urn:oid:2.49.0.1.840.0.945bc990f9446dc15c6159731230afd663ac7637.001.1"},
		{source: "usgs_earthquakes", file: "revision-pair-first-CONSTRUCTED.json", id: "us6000bdgz", issued: "2020-08-12T17:56:57.04Z"},
		{source: "nhc_current_storms", file: "three-storms-helene-2024-09-27-1038Z.json", id: "al092024", issued: "2024-09-27T09:00:00Z"},
		{source: "nhc_atcf_best_track", file: "bal092022-ian-final.dat", id: "al092022"},
		{source: "spc_day1_outlook", file: "day1otlk_20210317_1200_cat.lyr.geojson", id: "202103170552:TSTM", issued: "2021-03-17T05:52:00Z"},
		{source: "nifc_perimeters", file: "2024-01-28-one-perimeter.json", id: "{363D40C9-903C-4442-A1D8-59052F3D0468}", key: "{DDD7BB12-1792-4390-B6AC-8E42397E5EB6}", issued: "2024-01-27T20:00:34Z"},
		{source: "nws_dat_surveys", file: "damage-points-stlouis-962-PLACEHOLDER-USERS.geojson", id: "{480F9147-47E5-449C-8A10-D4DFFB12C7FF}", issued: "2011-01-02T21:46:09Z"},
		{source: "nws_dat_surveys", file: "damage-lines-2020-03-03-EXCERPT.geojson", id: "{8DE1ED11-01A1-4370-AA7D-EF7BA468CFD9}"},
		{source: "usgs_stn_hwms", file: "FilteredHWMs-louisiana-2016-585-rows-PLACEHOLDERS.csv", id: "hwm:15176", issued: "2016-08-24T04:00:00Z"},
		{source: "usgs_stn_hwms", file: "FilteredHWMs-louisiana-2016-first-25-DERIVED.json", id: "hwm:15176", issued: "2016-08-24T04:00:00Z"},
		{source: "usgs_shakemap_products", file: "detail-nn00536452-2016-03-21.json", id: "nn00536452:urn:usgs-product:nn:shakemap:nn00536452:1458578086584", issued: "2016-03-21T16:34:46.584Z"},
		{source: "usgs_shakemap_contours", file: "cont_mmi-iscgem882673.json", id: "iscgem882673:cont_mmi:3", key: "atlas:iscgem882673", p: Params{Version: "3", Source: "atlas", Code: "iscgem882673"}},
		{source: "nhc_wind_swath", file: "ep052026_best_track.zip", id: "ep052026_best_track.zip"},
		{source: "nhc_forecast_cone", file: "ep052026_5day_014.zip", id: "ep052026_5day_014.zip", issued: "2026-07-18T03:00:00Z"},
		{source: "nasa_firms", file: "MODIS_C6_1_USA_contiguous_and_Hawaii_24h-a.csv", id: "20.04031,-77.49902,2025-03-25,0228,T", issued: "2025-03-25T02:28:00Z"},
		{source: "openfema_declarations", file: "reload-first-40-rows-a-DERIVED.json", id: "867be42a-71d5-4f13-aa21-d91e0a6fd577", issued: "2022-07-19T00:00:00Z"},
	} {
		source, _ := Find(c.source)
		body, err := os.ReadFile(filepath.Join(folder, c.source, c.file))
		if err != nil {
			t.Fatal(err)
		}
		items, err := source.Replay(c.file, body, c.p)
		if err != nil || len(items) == 0 {
			t.Errorf("%s: %d items, error %v", c.file, len(items), err)
			continue
		}
		issued := ""
		if at := items[0].IssuedAt; at != nil {
			issued = at.Format(time.RFC3339Nano)
		}
		if got := items[0]; got.ProductID != c.id || got.ItemKey != c.key || issued != c.issued {
			t.Errorf("%s: first product %q, key %q, issued %q; want %q, %q, %q",
				c.file, got.ProductID, got.ItemKey, issued, c.id, c.key, c.issued)
		}
	}
}

// sharedFeeds finds the folder of recorded bodies beside the repository. They
// are other people's and are not part of it.
func sharedFeeds(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		folder := filepath.Join(dir, "shared", "feeds")
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			return folder
		}
	}
	t.Skip("the recorded bodies (shared/feeds beside the repository) are not on this machine")
	return ""
}

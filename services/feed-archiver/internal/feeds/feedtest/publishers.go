package feedtest

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// published is when every file of the file servers was last changed.
var published = time.Date(2026, time.August, 2, 2, 40, 0, 0, time.UTC)

// publishers routes all feeds by their publishers' paths.
func (s *Server) publishers() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /alerts/active", s.alerts)
	mux.HandleFunc("GET /earthquakes/feed/v1.0/summary/all_day.geojson", s.unvalidated("usgs_earthquakes/three.geojson"))
	mux.HandleFunc("GET /earthquakes/feed/v1.0/detail/us70000001.geojson", s.unvalidated("usgs_shakemap_products/three.json"))
	mux.HandleFunc("GET /product/shakemap/us70000001/us/1781500010000/download/cont_mmi.json",
		s.file("usgs_shakemap_contours/cont_mmi-us70000001-2.json"))
	mux.HandleFunc("GET /CurrentStorms.json", s.file("nhc_current_storms/two.json"))
	mux.HandleFunc("GET /atcf/btk/bal052026.dat", s.file("nhc_atcf_best_track/bal052026.dat"))
	mux.HandleFunc("GET /atcf/btk/bep072026.dat", s.notFound)
	mux.HandleFunc("GET /gis/best_track/al052026_best_track.zip", s.file("nhc_wind_swath/al052026_best_track.zip"))
	mux.HandleFunc("GET /gis/forecast/archive/al052026_5day_003.zip", s.file("nhc_forecast_cone/al052026_5day_003.zip"))
	mux.HandleFunc("GET /gis/peakSurge/AL052026_PeakStormSurge_003adv.kml", s.file("nhc_surge/AL052026_PeakStormSurge_003adv.kml"))
	mux.HandleFunc("GET /products/outlook/day1otlk_cat.lyr.geojson", s.file("spc_day1_outlook/three.geojson"))
	const perimeters = "/T4QMspbfLg3qTGWY/arcgis/rest/services/WFIGS_Interagency_Perimeters_Current/FeatureServer/0/query"
	mux.HandleFunc("GET "+perimeters, s.layer("nifc_perimeters/four.json", inProperties))
	const surveys = "/arcgis/rest/services/nws_damageassessmenttoolkit/DamageViewer/FeatureServer/"
	mux.HandleFunc("GET "+surveys+"0/query", s.layer("nws_dat_surveys/points.geojson", atTop))
	mux.HandleFunc("GET "+surveys+"1/query", s.layer("nws_dat_surveys/lines.geojson", atTop))
	mux.HandleFunc("GET "+surveys+"2/query", s.layer("nws_dat_surveys/quiet.geojson", atTop))
	mux.HandleFunc("GET /tropical/rest/services/tropical/NHC_PeakStormSurge/MapServer/2/query",
		s.layer("nhc_surge/peak_surge.geojson", inProperties))
	mux.HandleFunc("GET /STNServices/HWMs.json", s.unvalidated("usgs_stn_hwms/two.json"))
	mux.HandleFunc("GET /STNServices/FilteredHWMs.csv", s.unvalidated("usgs_stn_hwms/two.csv"))
	mux.HandleFunc("GET /api/area/csv/{key}/{product}/{area}/{days}", s.hotspots)
	mux.HandleFunc("GET /api/open/v2/DisasterDeclarationsSummaries", s.declarations)
	mux.HandleFunc("GET /", s.notFound)
	return mux
}

// notFound answers as the file servers do: with a page.
func (s *Server) notFound(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte("<!DOCTYPE html><title>Page Not Found</title>"))
}

// file serves a fixture as a plain file server behind a cache does: with both
// validators, an Age, and 304.
func (s *Server) file(fixture string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := Fixture(s.t, fixture)
		sum := sha256.Sum256(body)
		tag := `"` + hex.EncodeToString(sum[:8]) + `"`
		w.Header().Set("ETag", tag)
		w.Header().Set("Last-Modified", published.Format(http.TimeFormat))
		w.Header().Set("Age", "17")
		w.Header().Set("Cache-Control", "max-age=300")
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		send(w, r, body)
	}
}

// unvalidated serves a fixture as a query service does: made for this answer,
// so that Last-Modified is its own Date and can never match.
func (s *Server) unvalidated(fixture string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.Header().Set("Cache-Control", "public, max-age=60")
		send(w, r, Fixture(s.t, fixture))
	}
}

// hotspots takes its one key and answers any other with a sentence and 200.
func (s *Server) hotspots(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("key") != MapKey {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("Invalid MAP_KEY."))
		return
	}
	if r.PathValue("product") == "MODIS_NRT" {
		send(w, r, Fixture(s.t, "nasa_firms/quiet.csv"))
		return
	}
	send(w, r, Fixture(s.t, "nasa_firms/three.csv"))
}

// send compresses for readers that ask for it.
func send(w http.ResponseWriter, r *http.Request, body []byte) {
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		body = Gzip(body)
	}
	_, _ = w.Write(body)
}

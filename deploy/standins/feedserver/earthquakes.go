package feedserver

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// earthquakes serves a summary feed. As with the real one, the time that it was
// generated stands beside the events and differs in every answer.
func (f *feeds) earthquakes(w http.ResponseWriter, r *http.Request) {
	feed, isFeed := strings.CutSuffix(r.PathValue("feed"), ".geojson")
	if !isFeed {
		http.NotFound(w, r)
		return
	}
	edition := int(f.edition.Load())
	now := f.now().UTC()
	features := make([]any, 0, items)
	for i := range items {
		features = append(features, earthquake(i, revision(i, edition)))
	}
	w.Header().Set("Cache-Control", "public, max-age=60")
	w.Header().Set("Last-Modified", now.Format(http.TimeFormat))
	write(w, r, "application/json; charset=utf-8", map[string]any{
		"type": "FeatureCollection",
		"metadata": map[string]any{
			"generated": now.UnixMilli(),
			"url":       "http://" + r.Host + r.URL.Path,
			"title":     "USGS " + feed + " (stand-in)",
			"status":    http.StatusOK,
			"api":       "1.10.3",
			"count":     len(features),
		},
		"features": features,
		"bbox":     []float64{-179.5, -60, 0, 179.5, 70, 600},
	})
}

// earthquake makes one revision of an event: the magnitude and the time of the
// revision move, the id stays.
func earthquake(i, revision int) map[string]any {
	at := time.Date(2026, time.June, 15, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * 3 * time.Minute)
	updated := at.Add(10*time.Minute + time.Duration(revision)*time.Hour)
	magnitude := float64(i%60)/10 + float64(revision)/10
	code := fmt.Sprintf("7000%04d", i)
	return map[string]any{
		"type": "Feature",
		"id":   "us" + code,
		"properties": map[string]any{
			"mag":     magnitude,
			"place":   fmt.Sprintf("%d km N of Example’s Peak", i%40+1),
			"time":    at.UnixMilli(),
			"updated": updated.UnixMilli(),
			"tz":      nil,
			"url":     "https://earthquake.usgs.gov/earthquakes/eventpage/us" + code,
			"detail":  "https://earthquake.usgs.gov/earthquakes/feed/v1.0/detail/us" + code + ".geojson",
			"felt":    nil,
			"alert":   nil,
			"status":  []string{"automatic", "reviewed"}[min(revision, 1)],
			"tsunami": 0,
			"net":     "us",
			"code":    code,
			"ids":     ",us" + code + ",",
			"sources": ",us,",
			"types":   ",origin,phase-data,",
			"magType": "mb",
			"type":    "earthquake",
			"title":   fmt.Sprintf("M %.1f - Example’s Peak", magnitude),
		},
		"geometry": map[string]any{
			"type":        "Point",
			"coordinates": []float64{float64(i%360) - 179.5, float64(i%120) - 60, 10},
		},
	}
}

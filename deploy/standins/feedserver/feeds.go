// Package feedserver is a stand-in for two public feeds, for the local stack
// and its demo only: alerts in the shape of api.weather.gov, in pages, and
// earthquakes in the shape of the USGS summary feeds. Every text in it is made
// up here; nothing is a recorded body.
//
// What it serves is an edition, a number that begins at 0 and stands still
// until POST /advance adds one. Every edition has 480 alerts and 480
// earthquakes, 3 of each different from the edition before: an alert is
// replaced by its update, a message with an id of its own, and an earthquake is
// revised under its id.
//
// It refuses what the real servers refuse, so that a reader that would be
// turned away there is turned away here.
package feedserver

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// items is how many products each feed holds in every edition.
	items = 480
	// changes is how many of them differ from the edition before.
	changes = 3
)

// revision says how often a product has changed by an edition: edition n
// changes the next three products in turn.
func revision(item, edition int) int {
	first := item / changes // counted from 0, the edition that changes it is first+1
	if edition <= first {
		return 0
	}
	return 1 + (edition-1-first)/(items/changes)
}

type feeds struct {
	now     func() time.Time
	edition atomic.Int64
}

// Handler serves edition 0 until it is told to advance. Paths:
//
//	GET  /alerts/active                             as of api.weather.gov, in three pages
//	GET  /earthquakes/feed/v1.0/summary/X.geojson   as of earthquake.usgs.gov, one page
//	GET  /edition                                   {"edition":0}
//	POST /advance                                   the next edition, {"edition":1}
//	GET  /healthz                                   200
func Handler(now func() time.Time) http.Handler {
	f := &feeds{now: now}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /alerts/active", f.alerts)
	mux.HandleFunc("GET /earthquakes/feed/v1.0/summary/{feed}", f.earthquakes)
	mux.HandleFunc("GET /edition", f.tell)
	mux.HandleFunc("POST /advance", f.advance)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

func (f *feeds) tell(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, "{\"edition\":%d}\n", f.edition.Load())
}

func (f *feeds) advance(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, "{\"edition\":%d}\n", f.edition.Add(1))
}

// write sends a document, compressed for readers that ask for it, as the real
// servers do.
func write(w http.ResponseWriter, r *http.Request, mediaType string, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		http.Error(w, "the feed cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write(body)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	packed := gzip.NewWriter(w)
	_, _ = packed.Write(body)
	_ = packed.Close()
}

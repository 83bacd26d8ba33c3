package feeds

import (
	"net/http"
	"net/url"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// usgsEarthquakes reads summary feeds of the USGS, every magnitude. A revision
// is the same event with a later "updated"; the id itself can change when
// another network becomes preferred, and is kept as the feed gives it.
var usgsEarthquakes = Source{
	Name:     "usgs_earthquakes",
	Rights:   "usgs_earthquakes",
	Accept:   "application/geo+json, application/json;q=0.9",
	Hosts:    usgsHosts,
	Every:    time.Minute,
	MaxPages: 1,
	MaxBytes: 64 << 20,
	Requests: usgsEarthquakesRequests,
	Address: func(s *Settings, p Params) (*url.URL, error) {
		return s.USGSEarthquakes.address("https://earthquake.usgs.gov/earthquakes/feed/v1.0/summary/{feed}.geojson",
			map[string]string{"feed": p.Request})
	},
	Split:    splitUSGSEarthquakes,
	endpoint: func(s *Settings) Endpoint { return s.USGSEarthquakes.Endpoint },
}

// usgsHosts is where events, their details and their products are published.
var usgsHosts = []string{"earthquake.usgs.gov"}

func usgsEarthquakesRequests(s *Settings, _ []archive.Held) []Params {
	requests := make([]Params, 0, len(s.USGSEarthquakes.Feeds))
	for _, feed := range s.USGSEarthquakes.Feeds {
		requests = append(requests, Params{Request: feed})
	}
	return requests
}

// splitUSGSEarthquakes counts for itself: metadata.count is what the feed held
// when somebody wrote it, and decides nothing.
func splitUSGSEarthquakes(body []byte, _ Params) (Page, error) {
	events, err := featureCollection(body)
	if err != nil {
		return Page{}, err
	}
	if status := number(member(events.root, "metadata", "status")); status >= http.StatusBadRequest {
		return Page{}, refused("the feed's own metadata says status %d", status)
	}
	items, err := events.items(func(feature, properties []byte) (archive.Item, error) {
		if member(properties, "mag") == nil && member(properties, "updated") == nil {
			return archive.Item{}, refused("not an earthquake: neither mag nor updated")
		}
		id, err := identified(text(member(feature, "id")), "the event's id")
		return archive.Item{ProductID: id, IssuedAt: epochMillis(member(properties, "updated"))}, err
	})
	return Page{Items: items}, err
}

package feeds

import (
	"net/url"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// nwsAlerts reads the alerts of the National Weather Service. An update or a
// cancellation is a message of its own with an id of its own, so nearly every
// product has one body; the chain runs through properties.references.
var nwsAlerts = Source{
	Name:     "nws_alerts",
	Rights:   "nws_alerts",
	Accept:   "application/geo+json",
	Hosts:    []string{"api.weather.gov"},
	Every:    time.Minute,
	MaxPages: 6,
	MaxBytes: 64 << 20,
	Requests: nwsAlertsRequests,
	Address:  nwsAlertsAddress,
	Split:    splitNWSAlerts,
	endpoint: func(s *Settings) Endpoint { return s.NWSAlerts.Endpoint },
}

func nwsAlertsRequests(s *Settings, _ []archive.Held) []Params {
	requests := make([]Params, 0, len(s.NWSAlerts.Queries))
	for _, q := range s.NWSAlerts.Queries {
		requests = append(requests, Params{Request: q.Name, Query: q.Query})
	}
	return requests
}

// nwsAlertsAddress adds nothing but the query: an unknown parameter, limit
// among them, is answered with 400.
func nwsAlertsAddress(s *Settings, p Params) (*url.URL, error) {
	u, err := s.NWSAlerts.address("https://api.weather.gov/alerts/active", nil)
	if err != nil || p.Query == "" {
		return u, err
	}
	query, err := url.ParseQuery(p.Query)
	if err != nil {
		return nil, err
	}
	return withDefaults(u, query), nil
}

func splitNWSAlerts(body []byte, _ Params) (Page, error) {
	alerts, err := featureCollection(body)
	if err != nil {
		return Page{}, err
	}
	items, err := alerts.items(func(_, properties []byte) (archive.Item, error) {
		id, err := identified(text(member(properties, "id")), "the alert's id")
		return archive.Item{ProductID: id, IssuedAt: zoned(member(properties, "sent"))}, err
	})
	next := linkedPage(text(member(alerts.root, "pagination", "next")))
	return Page{Items: items, Next: next, EmptyEnds: true}, err
}

// linkedPage follows a link that the body gives; the host is checked when the
// page is asked for.
func linkedPage(link string) Next {
	if link == "" {
		return nil
	}
	return func(asked *url.URL) (*url.URL, error) {
		next, err := asked.Parse(link)
		if err != nil {
			return nil, refused("the link to the next page is not a URL")
		}
		return next, nil
	}
}

package feeds

import (
	"net/url"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// spcDay1Outlook reads the categorical outlook for today, every category. The
// issue time stands in every feature, so a re-issue makes new products even of
// polygons that did not change.
var spcDay1Outlook = Source{
	Name:     "spc_day1_outlook",
	Rights:   "spc_day1_outlook",
	Accept:   "application/geo+json, application/json;q=0.9, */*;q=0.1",
	Hosts:    []string{"www.spc.noaa.gov"},
	Every:    10 * time.Minute,
	MaxPages: 1,
	MaxBytes: 16 << 20,
	Requests: func(*Settings, []archive.Held) []Params { return []Params{{Request: "day1"}} },
	Address: func(s *Settings, _ Params) (*url.URL, error) {
		return s.SPCDay1Outlook.address("https://www.spc.noaa.gov/products/outlook/day1otlk_cat.lyr.geojson", nil)
	},
	Split:    splitSPCDay1Outlook,
	endpoint: func(s *Settings) Endpoint { return s.SPCDay1Outlook },
}

// splitSPCDay1Outlook also takes the believed form of a quiet day, one feature
// without area whose label is empty: it is kept as issued, under "ISSUE:".
func splitSPCDay1Outlook(body []byte, _ Params) (Page, error) {
	outlook, err := featureCollection(body)
	if err != nil {
		return Page{}, err
	}
	items, err := outlook.items(func(_, properties []byte) (archive.Item, error) {
		label := member(properties, "LABEL")
		if label == nil {
			return archive.Item{}, refused("a feature without a LABEL")
		}
		issue, err := identified(text(member(properties, "ISSUE")), "ISSUE")
		if err != nil {
			return archive.Item{}, err
		}
		id, err := identified(issue+":"+text(label), "LABEL")
		return archive.Item{ProductID: id, IssuedAt: clock(issue, "200601021504")}, err
	})
	return Page{Items: items}, err
}

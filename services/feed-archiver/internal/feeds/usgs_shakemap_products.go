package feeds

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// usgsShakeMapProducts reads the detail of each earthquake that has a ShakeMap
// and keeps the map's product entries. A product id holds its update time, so
// a version of a map is a product of its own.
var usgsShakeMapProducts = Source{
	Name:     "usgs_shakemap_products",
	Rights:   "usgs_shakemap_products",
	Accept:   "application/geo+json, application/json;q=0.9",
	Hosts:    usgsHosts,
	Every:    10 * time.Minute,
	MaxPages: 1,
	MaxBytes: 32 << 20,
	Follows:  "usgs_earthquakes",
	Requests: usgsShakeMapProductsRequests,
	Address: func(s *Settings, p Params) (*url.URL, error) {
		return s.USGSShakeMapProducts.address("https://earthquake.usgs.gov/earthquakes/feed/v1.0/detail/{event}.geojson",
			map[string]string{"event": p.Event})
	},
	Split:    splitUSGSShakeMapProducts,
	endpoint: func(s *Settings) Endpoint { return s.USGSShakeMapProducts },
}

// eventID is the form of an earthquake's id.
var eventID = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

func usgsShakeMapProductsRequests(_ *Settings, held []archive.Held) []Params {
	var requests []Params
	for _, event := range held {
		types := text(member([]byte(event.Body), "properties", "types"))
		if strings.Contains(types, ",shakemap,") && eventID.MatchString(event.ProductID) {
			requests = append(requests, Params{Request: event.ProductID, Event: event.ProductID})
		}
	}
	return distinct(requests)
}

// splitUSGSShakeMapProducts takes the event's id from the body: an event that
// was asked for under one id can have another by now.
func splitUSGSShakeMapProducts(body []byte, _ Params) (Page, error) {
	root, err := document(body)
	if err != nil {
		return Page{}, err
	}
	products := member(root, "properties", "products")
	if text(member(root, "type")) != "Feature" || kindOf(products) != '{' {
		return Page{}, refused("not the detail of an earthquake")
	}
	event, err := identified(text(member(root, "id")), "the event's id")
	if err != nil {
		return Page{}, err
	}
	maps := member(products, "shakemap")
	if maps != nil && kindOf(maps) != '[' {
		return Page{}, refused("the shakemap products are not a list")
	}
	items, err := rows(maps, func(entry []byte) (archive.Item, error) {
		id, err := identified(text(member(entry, "id")), "the product's id")
		return archive.Item{ProductID: event + ":" + id, IssuedAt: epochMillis(member(entry, "updateTime"))}, err
	})
	return Page{Items: items}, err
}

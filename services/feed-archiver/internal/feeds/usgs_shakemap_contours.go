package feeds

import (
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// usgsShakeMapContours reads the intensity contours of each ShakeMap, whole.
// The file says neither its version nor its time; both come from the product
// entry that led to it. One event can carry maps of several makers, each with
// versions of its own. The radii path reads the very same file.
var usgsShakeMapContours = Source{
	Name:     "usgs_shakemap_contours",
	Rights:   "usgs_shakemap_contours",
	Accept:   "application/geo+json, application/json;q=0.9",
	Hosts:    usgsHosts,
	Every:    time.Hour,
	MaxPages: 1,
	MaxBytes: 32 << 20,
	Follows:  "usgs_shakemap_products",
	Requests: usgsShakeMapContoursRequests,
	Address: func(s *Settings, p Params) (*url.URL, error) {
		return linkAddress(s.USGSShakeMapContours, usgsHosts, p, map[string]string{
			"event": p.Event, "version": p.Version, "source": p.Source, "code": p.Code,
		})
	},
	Split:    splitUSGSShakeMapContours,
	FromFile: contoursFromFile,
	endpoint: func(s *Settings) Endpoint { return s.USGSShakeMapContours },
}

func usgsShakeMapContoursRequests(_ *Settings, held []archive.Held) []Params {
	var requests []Params
	for _, product := range held {
		entry := []byte(product.Body)
		event, _, _ := strings.Cut(product.ProductID, ":")
		p := Params{
			Event:    event,
			Version:  text(member(entry, "properties", "version")),
			Source:   text(member(entry, "source")),
			Code:     text(member(entry, "code")),
			Link:     text(member(entry, "contents", "download/cont_mmi.json", "url")),
			IssuedAt: zoned(member(entry, "properties", "process-timestamp")),
		}
		if p.Link == "" || p.Version == "" || p.Source == "" || p.Code == "" {
			continue
		}
		// The update time, and not the version, makes the name unique: a version can
		// be sent twice.
		p.Request = strings.Join([]string{event, p.Source, p.Code, text(member(entry, "updateTime"))}, ":")
		requests = append(requests, p)
	}
	return distinct(requests)
}

func splitUSGSShakeMapContours(body []byte, p Params) (Page, error) {
	contours, err := featureCollection(body)
	if err != nil {
		return Page{}, err
	}
	if text(member(contours.root, "metadata", "eventid")) == "" {
		return Page{}, refused("not the contours of a ShakeMap: no metadata.eventid")
	}
	_, err = contours.items(func(_, properties []byte) (archive.Item, error) {
		if member(properties, "value") == nil || member(properties, "units") == nil {
			return archive.Item{}, refused("not a contour: no value or no units")
		}
		return archive.Item{}, nil
	})
	if err != nil {
		return Page{}, err
	}
	id, err := identified(p.Event+":cont_mmi:"+p.Version, "the event's id and the version")
	if err != nil {
		return Page{}, err
	}
	item := archive.Item{ProductID: id, IssuedAt: p.IssuedAt, Kind: archive.JSON, Body: contours.root}
	if p.Source != "" || p.Code != "" {
		if item.ItemKey, err = identified(p.Source+":"+p.Code, "the map's source and code"); err != nil {
			return Page{}, err
		}
	}
	return Page{Items: []archive.Item{item}}, nil
}

// contoursFromFile reads names like cont_mmi-us7000abcd-3.json: the event and,
// after a last hyphen, the version.
func contoursFromFile(file string) Params {
	name := strings.TrimSuffix(path.Base(file), path.Ext(file))
	name = strings.TrimPrefix(name, "cont_mmi-")
	event, version, _ := strings.Cut(name, "-")
	return Params{Event: event, Version: version}
}

package feeds

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// nhcSurge reads, while a storm is active, the peak-surge layer as GeoJSON, and
// beside it each storm's own surge KML. The layer names no storm, so it is one
// product of a fixed id: a departure from the storm's id that is documented in
// docs/feeds.md.
var nhcSurge = Source{
	Name:     "nhc_surge",
	Rights:   "nhc_surge",
	Accept:   "application/geo+json, application/json, application/vnd.google-earth.kml+xml, */*;q=0.1",
	Hosts:    []string{"mapservices.weather.noaa.gov", "www.nhc.noaa.gov"},
	Every:    15 * time.Minute,
	MaxPages: 1,
	MaxBytes: 32 << 20,
	Follows:  "nhc_current_storms",
	Requests: nhcSurgeRequests,
	Address:  nhcSurgeAddress,
	Split:    splitNHCSurge,
	FromFile: func(file string) Params {
		p := stormFromFile(file)
		if !strings.EqualFold(path.Ext(file), ".kml") {
			p.Request, p.Member = peakSurge, surgeMember
		}
		return p
	},
	endpoint: func(s *Settings) Endpoint { return s.NHCSurge.Endpoint },
}

// peakSurge is the name and the product id of the layer.
const peakSurge = "peak_surge"

// surgeMember is the setting's own default, for recorded bodies.
const surgeMember = "name"

func nhcSurgeRequests(s *Settings, held []archive.Held) []Params {
	if len(held) == 0 {
		return nil
	}
	ofStorms := stormRequests(held, func(entry []byte, p *Params) bool {
		p.Request = "kml_" + p.Storm
		p.IssuedAt = zoned(member(entry, "peakSurgeKML", "issuance"))
		return linked(entry, p, "peakSurgeKML", "peakSurgeKMLFile")
	})
	return append([]Params{{Request: peakSurge, Member: s.NHCSurge.Member}}, ofStorms...)
}

func nhcSurgeAddress(s *Settings, p Params) (*url.URL, error) {
	if p.Request != peakSurge {
		return linkAddress(kmlEndpoint(s.NHCSurge.Endpoint), nhcHosts, p, nil)
	}
	return arcgisQuery(s.NHCSurge.Endpoint,
		"https://mapservices.weather.noaa.gov/tropical/rest/services/tropical/NHC_PeakStormSurge/MapServer/2/query",
		"", "1=1", "OBJECTID", arcgisPage)
}

func splitNHCSurge(body []byte, p Params) (Page, error) {
	if p.Request == peakSurge {
		return splitPeakSurge(body, p.Member)
	}
	if err := checkKML(body); err != nil {
		return Page{}, err
	}
	name, err := identified(p.File, "the KML's file name")
	if err != nil {
		return Page{}, err
	}
	return Page{Items: []archive.Item{{ProductID: name, IssuedAt: p.IssuedAt, Kind: archive.Text, Body: body}}}, nil
}

// kmlEndpoint returns where the storms' KML is read: where the entries link to,
// or the same paths at the host of an override, which names the layer.
func kmlEndpoint(layer Endpoint) Endpoint {
	u, err := url.Parse(layer.URL)
	if err != nil || u.Host == "" {
		return Endpoint{}
	}
	return Endpoint{URL: u.Scheme + "://" + u.Host + "/"}
}

// splitPeakSurge keeps the layer whole; with no features it is a quiet read. A
// whole cannot be put together from pages, so a cut answer is refused.
func splitPeakSurge(body []byte, member string) (Page, error) {
	layer, err := featureCollection(body)
	if err != nil {
		return Page{}, err
	}
	features, err := layer.items(func(_, properties []byte) (archive.Item, error) {
		if !hasMember(properties, member) {
			return archive.Item{}, refused("a feature without %s is not the peak-surge layer's", member)
		}
		return archive.Item{}, nil
	})
	switch {
	case err != nil:
		return Page{}, err
	case transferLimitExceeded(layer):
		return Page{}, refused("the layer's answer is cut off at the server's limit")
	case len(features) == 0:
		return Page{}, nil
	}
	return Page{Items: []archive.Item{{ProductID: peakSurge, Kind: archive.JSON, Body: layer.root}}}, nil
}

// hasMember says whether an object has a member of the name, in whatever case.
func hasMember(object []byte, name string) bool {
	for quoted := range members(object) {
		if strings.EqualFold(unquote(quoted), name) {
			return true
		}
	}
	return false
}

// checkKML reads the document to its end: well-formed, with a kml root.
func checkKML(body []byte) error {
	decoder := xml.NewDecoder(bytes.NewReader(body))
	depth, root := 0, ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) && root == "kml" && depth == 0 {
			return nil
		}
		if err != nil {
			return refused("the body is not KML, or is cut off")
		}
		switch element := token.(type) {
		case xml.StartElement:
			if depth++; root == "" {
				root = element.Name.Local
			}
		case xml.EndElement:
			depth--
		}
	}
}

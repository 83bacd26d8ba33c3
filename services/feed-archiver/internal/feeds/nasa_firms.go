package feeds

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// nasaFIRMS reads hotspots of the last day, each row the line as it came, before
// any filter. Windows slide, so nearly all rows of a read were in the one
// before. The key stands in the address and nowhere else.
var nasaFIRMS = Source{
	Name:     "nasa_firms",
	Rights:   "nasa_firms",
	Accept:   "text/csv, text/plain;q=0.9",
	Hosts:    []string{"firms.modaps.eosdis.nasa.gov"},
	Every:    30 * time.Minute,
	MaxPages: 1,
	MaxBytes: 128 << 20,
	Requests: nasaFIRMSRequests,
	Address: func(s *Settings, p Params) (*url.URL, error) {
		return s.NASAFIRMS.address("https://firms.modaps.eosdis.nasa.gov/api/area/csv/{key}/{product}/{area}/{days}", map[string]string{
			"key": s.NASAFIRMS.MapKey, "product": p.Product, "area": p.Area, "days": s.NASAFIRMS.Days,
		})
	},
	Split:    splitNASAFIRMS,
	secret:   func(s *Settings) string { return s.NASAFIRMS.MapKey },
	endpoint: func(s *Settings) Endpoint { return s.NASAFIRMS.Endpoint },
}

// nasaFIRMSRequests asks for nothing without a key, unless another address was
// set, which may need none.
func nasaFIRMSRequests(s *Settings, _ []archive.Held) []Params {
	if s.NASAFIRMS.MapKey == "" && s.NASAFIRMS.URL == "" {
		return nil
	}
	var requests []Params
	for _, product := range s.NASAFIRMS.Products {
		for _, area := range s.NASAFIRMS.Areas {
			requests = append(requests, Params{Request: product + ":" + area.Name, Product: product, Area: area.Box})
		}
	}
	return requests
}

// hotspotID are the columns that together name a detection.
var hotspotID = []string{"latitude", "longitude", "acq_date", "acq_time", "satellite"}

func splitNASAFIRMS(body []byte, _ Params) (Page, error) {
	hotspots, err := openTable(body, hotspotID...)
	if err != nil {
		return Page{}, err
	}
	columns := make([]int, len(hotspotID))
	for i, name := range hotspotID {
		columns[i] = hotspots.column(name)
	}
	id := make([]string, len(columns))
	var items []archive.Item
	for {
		fields, line, err := hotspots.next()
		if errors.Is(err, io.EOF) {
			return Page{Items: items}, nil
		}
		if err != nil {
			return Page{}, err
		}
		for i, c := range columns {
			if id[i] = fields[c]; checkName(id[i]) != nil {
				return Page{}, refused("row %d has no %s", hotspots.row, hotspotID[i])
			}
		}
		name, err := identified(strings.Join(id, ","), "a row's name")
		if err != nil {
			return Page{}, err
		}
		items = append(items, archive.Item{
			ProductID: name,
			IssuedAt:  acquired(id[2], id[3]),
			Kind:      archive.Text,
			Body:      line,
		})
	}
}

// acquired reads date and time of an acquisition, UTC. The time is four digits,
// but some programs on the way drop the zeros in front.
func acquired(date, hhmm string) *time.Time {
	if len(hhmm) > 4 {
		return nil
	}
	return clock(date+" "+"0000"[len(hhmm):]+hhmm, "2006-01-02 1504")
}

package feeds

import (
	"bytes"
	"net/url"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// nwsDATSurveys reads the damage surveys of the Damage Assessment Toolkit, its
// points, lines and polygons, each layer a request. Who edited a survey is a
// person's user name and is taken out.
var nwsDATSurveys = Source{
	Name:     "nws_dat_surveys",
	Rights:   "nws_dat_surveys",
	Accept:   "application/geo+json, application/json;q=0.9",
	Hosts:    []string{"services.dat.noaa.gov"},
	Every:    6 * time.Hour,
	MaxPages: 200,
	MaxBytes: 64 << 20,
	Removed:  []string{"properties.edit_user", "properties.created_user", "properties.last_edited_user"},
	Requests: func(s *Settings, _ []archive.Held) []Params {
		var requests []Params
		for _, layer := range s.NWSDATSurveys.Layers {
			requests = append(requests, Params{Request: "layer_" + layer, Layer: layer})
		}
		return requests
	},
	Address: func(s *Settings, p Params) (*url.URL, error) {
		return arcgisQuery(s.NWSDATSurveys.Endpoint,
			"https://services.dat.noaa.gov/arcgis/rest/services/nws_damageassessmenttoolkit/DamageViewer/FeatureServer/{layer}/query",
			p.Layer, s.NWSDATSurveys.Where, "objectid", arcgisPage)
	},
	Split:    splitNWSDATSurveys,
	endpoint: func(s *Settings) Endpoint { return s.NWSDATSurveys.Endpoint },
}

// datMissing is the service's sentinel for a value that is not there.
var datMissing = []byte("-99")

// splitNWSDATSurveys takes the survey's date from the points; lines and
// polygons have none, and their other dates are not when they were issued.
func splitNWSDATSurveys(body []byte, _ Params) (Page, error) {
	return arcgisFeatures(body, func(properties []byte) (archive.Item, error) {
		item := archive.Item{}
		if date := member(properties, "surveydate"); !bytes.Equal(date, datMissing) {
			item.IssuedAt = epochMillis(date)
		}
		var err error
		item.ProductID, err = identified(text(member(properties, "globalid")), "globalid")
		return item, err
	})
}

package feeds

import (
	"net/url"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// nifcPerimeters reads the current wildfire perimeters, prescribed burns
// included. An incident can have several perimeters in one body, and a
// perimeter changes (cost, personnel, containment) while poly_DateCurrent stays.
var nifcPerimeters = Source{
	Name:     "nifc_perimeters",
	Rights:   "nifc_perimeters",
	Accept:   "application/geo+json, application/json;q=0.9",
	Hosts:    []string{"services3.arcgis.com"},
	Every:    time.Hour,
	MaxPages: 50,
	MaxBytes: 128 << 20,
	Requests: func(*Settings, []archive.Held) []Params { return []Params{{Request: "current"}} },
	Address: func(s *Settings, _ Params) (*url.URL, error) {
		return arcgisQuery(s.NIFCPerimeters.Endpoint,
			"https://services3.arcgis.com/T4QMspbfLg3qTGWY/arcgis/rest/services/WFIGS_Interagency_Perimeters_Current/FeatureServer/0/query",
			"", "1=1", "OBJECTID", s.NIFCPerimeters.PageSize)
	},
	Split:    splitNIFCPerimeters,
	endpoint: func(s *Settings) Endpoint { return s.NIFCPerimeters.Endpoint },
}

// The members that name a perimeter, newest form of the service first. The
// key tells the perimeters of one incident apart.
var (
	nifcIncident = []string{"attr_IrwinID", "poly_IRWINID", "irwin_IrwinID", "poly_IncidentName", "attr_IncidentName", "irwin_IncidentName"}
	nifcKey      = []string{"poly_SourceGlobalID", "poly_GlobalID", "GlobalID", "OBJECTID"}
)

func splitNIFCPerimeters(body []byte, _ Params) (Page, error) {
	return arcgisFeatures(body, func(properties []byte) (archive.Item, error) {
		if member(properties, "poly_DateCurrent") == nil && member(properties, "poly_IncidentName") == nil {
			return archive.Item{}, refused("not a perimeter: no poly_ members")
		}
		id, err := identified(firstText(properties, nifcIncident), "the IRWIN id and the incident's name")
		if err != nil {
			return archive.Item{}, err
		}
		issued := member(properties, "poly_DateCurrent")
		at := epochMillis(issued)
		if at == nil {
			at = zoned(issued)
		}
		return archive.Item{ProductID: id, ItemKey: firstText(properties, nifcKey), IssuedAt: at}, nil
	})
}

// firstText returns the first of the members that holds something.
func firstText(object []byte, names []string) string {
	for _, name := range names {
		if s := text(member(object, name)); checkName(s) == nil {
			return s
		}
	}
	return ""
}

package feeds

import (
	"net/url"
	"regexp"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// nhcForecastCone reads the bundle of each advisory's forecast cone, the zip as
// it is, under the archive's file name, which holds the advisory's number.
var nhcForecastCone = Source{
	Name:     "nhc_forecast_cone",
	Rights:   "nhc_forecast_cone",
	Accept:   "application/zip, application/octet-stream;q=0.9, */*;q=0.1",
	Hosts:    nhcHosts,
	Every:    10 * time.Minute,
	MaxPages: 1,
	MaxBytes: 16 << 20,
	Follows:  "nhc_current_storms",
	Requests: func(_ *Settings, held []archive.Held) []Params {
		return stormRequests(held, func(entry []byte, p *Params) bool {
			return linked(entry, p, "trackCone", "zipFile")
		})
	},
	Address: func(s *Settings, p Params) (*url.URL, error) {
		return linkAddress(s.NHCForecastCone, nhcHosts, p, map[string]string{"storm": p.Storm, "file": p.File})
	},
	Split:    splitNHCForecastCone,
	FromFile: stormFromFile,
	endpoint: func(s *Settings) Endpoint { return s.NHCForecastCone },
}

// coneMember is the name of the cone's own shape in the bundle.
var coneMember = regexp.MustCompile(`(?i)^([a-z]{2}[0-9]{6})-[0-9]{3}a?_5day_pgn\.(?:shp|dbf)$`)

func splitNHCForecastCone(body []byte, p Params) (Page, error) {
	bundle, err := openBundle(body, coneMember, p.Storm)
	if err != nil {
		return Page{}, err
	}
	name, err := identified(p.File, "the archive's file name")
	if err != nil {
		return Page{}, err
	}
	issued := advisoryTime(dbfText(bundleMember(bundle, "_5day_pgn.dbf"), "ADVDATE"))
	return Page{Items: []archive.Item{{ProductID: name, IssuedAt: issued, Kind: archive.Binary, Body: body}}}, nil
}

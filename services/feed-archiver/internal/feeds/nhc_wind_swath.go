package feeds

import (
	"net/url"
	"regexp"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// nhcWindSwath reads each storm's best-track bundle, the zip as it is: one name
// for all revisions, replaced in place. Its members carry the minute of the
// build, so the same shapes zipped again are another body.
var nhcWindSwath = Source{
	Name:     "nhc_wind_swath",
	Rights:   "nhc_wind_swath",
	Accept:   "application/zip, application/octet-stream;q=0.9, */*;q=0.1",
	Hosts:    nhcHosts,
	Every:    30 * time.Minute,
	MaxPages: 1,
	MaxBytes: 16 << 20,
	Follows:  "nhc_current_storms",
	Requests: func(_ *Settings, held []archive.Held) []Params {
		return stormRequests(held, func(entry []byte, p *Params) bool {
			return linked(entry, p, "bestTrackGIS", "zipFile")
		})
	},
	Address: func(s *Settings, p Params) (*url.URL, error) {
		return linkAddress(s.NHCWindSwath, nhcHosts, p, map[string]string{"storm": p.Storm, "file": p.File})
	},
	Split:    splitNHCWindSwath,
	FromFile: stormFromFile,
	endpoint: func(s *Settings) Endpoint { return s.NHCWindSwath },
}

// bestTrackMember is the name of a shape in the bundle. A storm that never was
// strong has no swath; every one has points and a line.
var bestTrackMember = regexp.MustCompile(`(?i)^([a-z]{2}[0-9]{6})_(?:pts|lin|windswath)\.(?:shp|dbf)$`)

func splitNHCWindSwath(body []byte, p Params) (Page, error) {
	if _, err := openBundle(body, bestTrackMember, p.Storm); err != nil {
		return Page{}, err
	}
	storm, err := identified(p.Storm, "the storm's id")
	if err != nil {
		return Page{}, err
	}
	return Page{Items: []archive.Item{{ProductID: storm + "_best_track.zip", Kind: archive.Binary, Body: body}}}, nil
}

package feeds

import (
	"net/url"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// nhcCurrentStorms reads the list of active storms. One advisory is several
// bodies: the products of an entry are filled in one after the other while
// lastUpdate, which is nominal and can lie ahead, stays.
var nhcCurrentStorms = Source{
	Name:     "nhc_current_storms",
	Rights:   "nhc_current_storms",
	Accept:   "application/json",
	Hosts:    nhcHosts,
	Every:    5 * time.Minute,
	MaxPages: 1,
	MaxBytes: 16 << 20,
	Requests: func(*Settings, []archive.Held) []Params { return []Params{{Request: "current"}} },
	Address: func(s *Settings, _ Params) (*url.URL, error) {
		return s.NHCCurrentStorms.address("https://www.nhc.noaa.gov/CurrentStorms.json", nil)
	},
	Split:    splitNHCCurrentStorms,
	endpoint: func(s *Settings) Endpoint { return s.NHCCurrentStorms },
}

func splitNHCCurrentStorms(body []byte, _ Params) (Page, error) {
	root, err := document(body)
	if err != nil {
		return Page{}, err
	}
	storms := member(root, "activeStorms")
	if kindOf(storms) != '[' {
		return Page{}, refused("no list of active storms")
	}
	items, err := rows(storms, func(storm []byte) (archive.Item, error) {
		id, err := identified(text(member(storm, "id")), "the storm's id")
		return archive.Item{ProductID: id, IssuedAt: zoned(member(storm, "lastUpdate"))}, err
	})
	return Page{Items: items}, err
}

package feeds

import (
	"bytes"
	"net/url"
	"strings"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// nhcATCFBestTrack reads the b-deck of each active storm, whole: earlier rows
// are re-written, and a revision can have the same length. The file states no
// time of issue; the hour of its newest row is none.
var nhcATCFBestTrack = Source{
	Name:     "nhc_atcf_best_track",
	Rights:   "nhc_atcf_best_track",
	Accept:   "text/plain, */*;q=0.1",
	Hosts:    []string{"ftp.nhc.noaa.gov"},
	Every:    15 * time.Minute,
	MaxPages: 1,
	MaxBytes: 4 << 20,
	Follows:  "nhc_current_storms",
	Requests: func(_ *Settings, held []archive.Held) []Params {
		return stormRequests(held, func([]byte, *Params) bool { return true })
	},
	Address: func(s *Settings, p Params) (*url.URL, error) {
		return s.NHCATCFBestTrack.address("https://ftp.nhc.noaa.gov/atcf/btk/b{storm}.dat", map[string]string{"storm": p.Storm})
	},
	Split:    splitNHCATCFBestTrack,
	FromFile: stormFromFile,
	endpoint: func(s *Settings) Endpoint { return s.NHCATCFBestTrack },
}

// bestTrackFields is how many fields every row has at the least; what follows
// them differs from row to row.
const bestTrackFields = 8

func splitNHCATCFBestTrack(body []byte, p Params) (Page, error) {
	storm, err := identified(p.Storm, "the storm's id")
	if err != nil {
		return Page{}, err
	}
	if !stormID.MatchString(storm) {
		return Page{}, refused("the storm's id is not of the form al092022")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return Page{}, refused("the body is empty")
	}
	if !bytes.HasSuffix(body, []byte("\n")) {
		return Page{}, refused("the last row has no end")
	}
	row := 0
	for line := range bytes.Lines(body) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		row++
		fields := strings.Split(string(line), ",")
		if len(fields) < bestTrackFields || strings.TrimSpace(fields[4]) != "BEST" {
			return Page{}, refused("row %d is not a row of a best track", row)
		}
		if !strings.EqualFold(strings.TrimSpace(fields[0])+strings.TrimSpace(fields[1]), storm[:4]) {
			return Page{}, refused("row %d is of another storm", row)
		}
	}
	return Page{Items: []archive.Item{{ProductID: storm, Kind: archive.Text, Body: body}}}, nil
}

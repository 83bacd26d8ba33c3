package feeds

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// usgsSTNHWMs reads high-water marks, all of them or those of events. A mark
// is edited for years while its flag date stays. Surveyors' names, the ids that
// point at them, and free text, which holds addresses of homes, are taken out,
// at whatever depth they stand.
var usgsSTNHWMs = Source{
	Name:     "usgs_stn_hwms",
	Rights:   "usgs_stn_hwms",
	Accept:   "application/json, text/csv;q=0.9",
	Hosts:    []string{"stn.wim.usgs.gov"},
	Every:    24 * time.Hour,
	MaxPages: 1,
	MaxBytes: 128 << 20,
	Removed: []string{
		"**.flagMemberName", "**.surveyMemberName", "**.approvalMember",
		"**.flag_member_id", "**.survey_member_id", "**.approval_id", "**.member_id",
		"**.flag_member", "**.survey_member", "**.approval", "**.member",
		"**.siteDescription", "**.hwm_locationdescription", "**.hwm_notes", "**.siteNotes",
		"**.site_description", "**.site_notes",
	},
	Requests: usgsSTNHWMsRequests,
	Address: func(s *Settings, p Params) (*url.URL, error) {
		format := s.USGSSTNHWMs.Format
		if p.Event == "" {
			return s.USGSSTNHWMs.address("https://stn.wim.usgs.gov/STNServices/HWMs."+format, nil)
		}
		return s.USGSSTNHWMs.address("https://stn.wim.usgs.gov/STNServices/FilteredHWMs."+format+"?Event={event}",
			map[string]string{"event": p.Event})
	},
	Split:    splitUSGSSTNHWMs,
	endpoint: func(s *Settings) Endpoint { return s.USGSSTNHWMs.Endpoint },
}

func usgsSTNHWMsRequests(s *Settings, _ []archive.Held) []Params {
	if len(s.USGSSTNHWMs.Events) == 0 {
		return []Params{{Request: "all"}}
	}
	var requests []Params
	for _, event := range s.USGSSTNHWMs.Events {
		requests = append(requests, Params{Request: "event_" + event, Event: event})
	}
	return requests
}

func splitUSGSSTNHWMs(body []byte, _ Params) (Page, error) {
	start := bytes.TrimSpace(bytes.TrimPrefix(body, byteOrderMark))
	if len(start) > 0 && strings.IndexByte("[{<", start[0]) < 0 {
		items, err := marksOfCSV(body)
		return Page{Items: items}, err
	}
	root, err := document(body)
	if err != nil {
		return Page{}, err
	}
	if kindOf(root) != '[' {
		return Page{}, refused("not a list of high-water marks")
	}
	items, err := rows(root, func(mark []byte) (archive.Item, error) {
		return nameMark(text(member(mark, "hwm_id")), text(member(mark, "flag_date")))
	})
	return Page{Items: items}, err
}

// marksOfCSV makes an object of each row, every member a text under its
// column's name: a line of CSV could not be kept without what must be removed.
func marksOfCSV(body []byte) ([]archive.Item, error) {
	marks, err := openTable(body, "hwm_id", "flag_date")
	if err != nil {
		return nil, err
	}
	id, flagged := marks.column("hwm_id"), marks.column("flag_date")
	var items []archive.Item
	for {
		fields, line, err := marks.next()
		if errors.Is(err, io.EOF) {
			return items, nil
		}
		if err != nil {
			return nil, err
		}
		if !utf8.Valid(line) {
			return nil, refused("row %d is not UTF-8", marks.row)
		}
		item, err := nameMark(fields[id], fields[flagged])
		if err != nil {
			return nil, err
		}
		item.Kind, item.Body = archive.JSON, objectOf(marks.columns, fields)
		items = append(items, item)
	}
}

// nameMark reads the flag date as UTC: it is local midnight stored as 04:00 or
// 05:00, without a zone, and the service means UTC without saying so.
func nameMark(id, flagged string) (archive.Item, error) {
	if _, err := identified(id, "hwm_id"); err != nil {
		return archive.Item{}, err
	}
	return archive.Item{
		ProductID: "hwm:" + id,
		IssuedAt:  clock(flagged, time.RFC3339, "2006-01-02T15:04:05", "1/2/2006 3:04:05 PM"),
	}, nil
}

// objectOf writes a JSON object with the columns in their order.
func objectOf(columns, fields []string) []byte {
	object := []byte{'{'}
	for i, column := range columns {
		if i > 0 {
			object = append(object, ',')
		}
		object = append(appendQuoted(object, column), ':')
		object = appendQuoted(object, fields[i])
	}
	return append(object, '}')
}

func appendQuoted(to []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always can be
	return append(to, quoted...)
}

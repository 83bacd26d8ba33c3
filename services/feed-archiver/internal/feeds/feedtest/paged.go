package feedtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// alertParameters are those that the alerts service knows; limit is described
// there, and refused all the same.
var alertParameters = map[string]bool{
	"area": true, "zone": true, "point": true, "region": true, "event": true, "status": true, "cursor": true,
	"message_type": true, "urgency": true, "severity": true, "certainty": true, "code": true,
}

// alerts serves three alerts in two pages and then an empty one, without
// validators: the second page still links on, as it is believed to do.
func (s *Server) alerts(w http.ResponseWriter, r *http.Request) {
	if !hasContact(r) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<html><title>Access Denied</title></html>"))
		return
	}
	for name := range r.URL.Query() {
		if !alertParameters[name] {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"title":"Bad Request","status":400}`))
			return
		}
	}
	pages := [][]json.RawMessage{
		features(s, "nws_alerts/two.json"),
		features(s, "nws_alerts/update-cancel.json")[1:],
		{},
	}
	page, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	collection := map[string]any{
		"@context": map[string]any{"@version": "1.1"},
		"type":     "FeatureCollection",
		"features": pages[page],
		"updated":  time.Now().UTC().Format(time.RFC3339),
	}
	if page < len(pages)-1 {
		query := r.URL.Query()
		query.Set("cursor", strconv.Itoa(page+1))
		collection["pagination"] = map[string]any{"next": s.URL + r.URL.Path + "?" + query.Encode()}
	}
	w.Header().Set("Cache-Control", "public, max-age=5, s-maxage=5")
	sendJSON(w, r, collection)
}

// flagPlace is where a map server says that there is more.
type flagPlace bool

const (
	atTop        flagPlace = false
	inProperties flagPlace = true
)

// maxRecordCount is the map servers' own limit, below what is asked for.
const maxRecordCount = 3

// layer serves a layer of a map server, page by page. It answers a bad query
// with 200 and an error object.
func (s *Server) layer(fixture string, place flagPlace) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if query.Get("f") != "geojson" || query.Get("where") == "" || query.Get("orderByFields") == "" {
			_, _ = w.Write([]byte(`{"error":{"code":400,"message":"Invalid or missing input parameters.","details":[]}}`))
			return
		}
		all := features(s, fixture)
		offset, _ := strconv.Atoi(query.Get("resultOffset"))
		count, _ := strconv.Atoi(query.Get("resultRecordCount"))
		start := min(offset, len(all))
		end := min(start+min(count, maxRecordCount), len(all))
		page := map[string]any{"type": "FeatureCollection", "features": all[start:end]}
		if end < len(all) && place == inProperties {
			page["properties"] = map[string]any{"exceededTransferLimit": true}
		} else if end < len(all) {
			page["exceededTransferLimit"] = true
		}
		w.Header().Set("ETag", fmt.Sprintf("%q", "9a15de89"))
		sendJSON(w, r, page)
	}
}

// declarationRows is how many rows the declarations have.
const declarationRows = 7

// declarations serves rows of one declaration after the other, at most three a
// page, and wants an order as the publisher does.
func (s *Server) declarations(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("$orderby") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	top, _ := strconv.Atoi(query.Get("$top"))
	skip, _ := strconv.Atoi(query.Get("$skip"))
	top = min(top, maxRecordCount)
	rows := []any{}
	for n := skip; n < min(skip+top, declarationRows); n++ {
		rows = append(rows, map[string]any{
			"id":              fmt.Sprintf("00000000-0000-4000-8000-%012d", n),
			"disasterNumber":  n,
			"declarationDate": "2026-07-19T00:00:00.000Z",
			"lastRefresh":     time.Now().UTC().Format(time.RFC3339Nano),
		})
	}
	sendJSON(w, r, map[string]any{
		"metadata":                      map[string]any{"skip": skip, "top": top, "count": declarationRows, "version": "v2"},
		"DisasterDeclarationsSummaries": rows,
	})
}

func features(s *Server, fixture string) []json.RawMessage {
	var collection struct{ Features []json.RawMessage }
	if err := json.Unmarshal(Fixture(s.t, fixture), &collection); err != nil {
		s.t.Errorf("fixture %s: %v", fixture, err)
	}
	return collection.Features
}

func sendJSON(w http.ResponseWriter, r *http.Request, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		http.Error(w, "cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/geo+json")
	send(w, r, body)
}

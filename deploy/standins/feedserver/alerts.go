package feedserver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// alertsPerPage makes three pages of an edition.
const alertsPerPage = 200

// firstSent is when the first alert of edition 0 was sent.
var firstSent = time.Date(2026, time.June, 15, 12, 0, 0, 0, time.FixedZone("", -5*60*60))

// alertEvents are the kinds of alerts that the feed goes through in turn.
var alertEvents = []string{"Flood Warning", "Severe Thunderstorm Warning", "Heat Advisory", "Red Flag Warning"}

// alertFilters are the parameters that the service knows. The stand-in
// evaluates event; the others it takes and leaves alone.
var alertFilters = map[string]bool{
	"area": true, "zone": true, "point": true, "region": true, "event": true, "status": true, "cursor": true,
	"message_type": true, "urgency": true, "severity": true, "certainty": true, "code": true,
}

// alerts serves /alerts/active: it wants a User-Agent with a contact, refuses
// parameters that it does not know, sends no validators, and links to the next
// page with a cursor.
func (f *feeds) alerts(w http.ResponseWriter, r *http.Request) {
	if !strings.ContainsAny(r.UserAgent(), "@/") {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<html><head><title>Access Denied</title></head><body>No contact given.</body></html>")
		return
	}
	query := r.URL.Query()
	for name := range query {
		if !alertFilters[name] {
			problem(w, fmt.Sprintf("Query parameter %q is not recognized", name))
			return
		}
	}
	edition := int(f.edition.Load())
	start := 0
	if cursor := query.Get("cursor"); cursor != "" {
		page, err := strconv.Atoi(cursor)
		if err != nil || page < 0 || page*alertsPerPage >= items {
			problem(w, "The cursor is not valid")
			return
		}
		start = page * alertsPerPage
	}
	end := min(start+alertsPerPage, items)
	features := []any{}
	for i := start; i < end; i++ {
		event := alertEvents[i%len(alertEvents)]
		if asked := query.Get("event"); asked == "" || strings.Contains(","+asked+",", ","+event+",") {
			features = append(features, alert(i, revision(i, edition), event))
		}
	}
	page := map[string]any{
		"@context": map[string]any{"@version": "1.1"},
		"type":     "FeatureCollection",
		"features": features,
		"title":    "Current watches, warnings, and advisories (stand-in)",
		"updated":  f.now().UTC().Format(time.RFC3339),
	}
	if end < items {
		query.Set("cursor", strconv.Itoa(end/alertsPerPage))
		page["pagination"] = map[string]any{"next": "http://" + r.Host + "/alerts/active?" + query.Encode()}
	}
	w.Header().Set("Cache-Control", "public, max-age=5, s-maxage=5")
	write(w, r, "application/geo+json", page)
}

func problem(w http.ResponseWriter, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"title":"Bad Request","status":400,"detail":%q}`, detail)
}

// alert makes one version of an alert. Every version but the first is an update
// that refers to the one before.
func alert(i, revision int, event string) map[string]any {
	id := alertID(i, revision)
	sent := firstSent.Add(time.Duration(i)*time.Minute + time.Duration(revision)*time.Hour)
	properties := map[string]any{
		"@id":           "https://api.weather.gov/alerts/" + id,
		"@type":         "wx:Alert",
		"id":            id,
		"areaDesc":      fmt.Sprintf("Example County %d", i+1),
		"geocode":       map[string]any{"SAME": []string{fmt.Sprintf("%06d", 100+i)}, "UGC": []string{fmt.Sprintf("XXC%03d", i+1)}},
		"affectedZones": []string{fmt.Sprintf("https://api.weather.gov/zones/county/XXC%03d", i+1)},
		"references":    []any{},
		"sent":          sent.Format(time.RFC3339),
		"effective":     sent.Format(time.RFC3339),
		"onset":         nil,
		"expires":       sent.Add(6 * time.Hour).Format(time.RFC3339),
		"ends":          nil,
		"status":        "Actual",
		"messageType":   "Alert",
		"category":      "Met",
		"severity":      "Moderate",
		"certainty":     "Likely",
		"urgency":       "Expected",
		"event":         event,
		"sender":        "w-nws.webmaster@noaa.gov",
		"senderName":    "NWS Example",
		"headline":      fmt.Sprintf("%s for Example County %d", event, i+1),
		"description":   fmt.Sprintf("An example made for the local stack, version %d.\n\nWhat: nothing <real> & nothing to fear.", revision+1),
		"instruction":   nil,
		"response":      "Monitor",
		"parameters":    map[string]any{"VTEC": []string{fmt.Sprintf("/O.NEW.KXXX.EX.Y.%04d.000000T0000Z-000000T0000Z/", i+1)}},
	}
	if revision > 0 {
		earlier := alertID(i, revision-1)
		properties["messageType"] = "Update"
		properties["references"] = []any{map[string]any{
			"@id":        "https://api.weather.gov/alerts/" + earlier,
			"identifier": earlier,
			"sender":     "w-nws.webmaster@noaa.gov",
			"sent":       sent.Add(-time.Hour).Format(time.RFC3339),
		}}
	}
	return map[string]any{
		"id":         "https://api.weather.gov/alerts/" + id,
		"type":       "Feature",
		"geometry":   nil,
		"properties": properties,
	}
}

func alertID(i, revision int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "alert %d version %d", i, revision))
	return "urn:oid:2.49.0.1.840.0." + hex.EncodeToString(sum[:20]) + ".001.1"
}

package feeds

import (
	"fmt"
	"net/url"
	"strings"
)

// Query is a named query of the alerts.
type Query struct {
	Name string
	// Query holds the parameters in URL form; empty for no filter.
	Query string
}

// Queries is a list of queries, as a setting.
type Queries []Query

// alertKinds are the queries that need no more than their name. The events are
// the service's own product names.
var alertKinds = map[string][]string{
	"active": nil,
	"storm": {
		"Tornado Warning", "Tornado Watch", "Severe Thunderstorm Warning", "Severe Thunderstorm Watch",
		"Severe Weather Statement", "Special Weather Statement", "Special Marine Warning",
	},
	"tropical": {
		"Hurricane Warning", "Hurricane Watch", "Hurricane Force Wind Warning", "Hurricane Local Statement",
		"Tropical Storm Warning", "Tropical Storm Watch", "Tropical Cyclone Local Statement",
		"Storm Surge Warning", "Storm Surge Watch", "Extreme Wind Warning", "Typhoon Warning", "Typhoon Watch",
	},
	"heat_wind": {
		"Extreme Heat Warning", "Extreme Heat Watch", "Excessive Heat Warning", "Excessive Heat Watch",
		"Heat Advisory", "High Wind Warning", "High Wind Watch", "Wind Advisory", "Dust Storm Warning",
	},
	"fire_weather": {"Red Flag Warning", "Fire Weather Watch", "Extreme Fire Danger", "Fire Warning"},
	"flood": {
		"Flash Flood Warning", "Flash Flood Watch", "Flash Flood Statement", "Flood Warning", "Flood Watch",
		"Flood Advisory", "Flood Statement", "Coastal Flood Warning", "Coastal Flood Watch",
		"Coastal Flood Advisory", "Lakeshore Flood Warning", "Lakeshore Flood Watch",
	},
	"winter": {
		"Blizzard Warning", "Winter Storm Warning", "Winter Storm Watch", "Winter Weather Advisory",
		"Ice Storm Warning", "Lake Effect Snow Warning", "Snow Squall Warning", "Wind Chill Warning",
		"Extreme Cold Warning", "Extreme Cold Watch", "Cold Weather Advisory",
	},
}

// UnmarshalText reads the form that the setting documents.
func (q *Queries) UnmarshalText(setting []byte) error {
	seen := map[string]bool{}
	var queries Queries
	for entry := range strings.SplitSeq(string(setting), ";") {
		name, query, own := strings.Cut(strings.TrimSpace(entry), "?")
		if name == "" || checkName(name) != nil || seen[name] {
			return fmt.Errorf("a query needs a name that no other has; %q has not", entry)
		}
		seen[name] = true
		if own {
			if _, err := url.ParseQuery(query); err != nil {
				return fmt.Errorf("the parameters of query %q are not in URL form", name)
			}
			queries = append(queries, Query{Name: name, Query: query})
			continue
		}
		events, known := alertKinds[name]
		if !known {
			return fmt.Errorf("query %q is none of the known kinds and states no parameters", name)
		}
		if events != nil {
			query = url.Values{"event": {strings.Join(events, ",")}}.Encode()
		}
		queries = append(queries, Query{Name: name, Query: query})
	}
	*q = queries
	return nil
}

package feeds

import (
	"net/url"
	"strconv"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// openFEMADeclarations reads every disaster declaration, in pages. When the row
// was last reloaded is taken out: it can change although nothing else does.
var openFEMADeclarations = Source{
	Name:     "openfema_declarations",
	Rights:   "openfema_declarations",
	Accept:   "application/json",
	Hosts:    []string{"www.fema.gov"},
	Every:    6 * time.Hour,
	MaxPages: 100,
	MaxBytes: 64 << 20,
	Removed:  []string{"lastRefresh"},
	Requests: func(*Settings, []archive.Held) []Params { return []Params{{Request: "all"}} },
	Address: func(s *Settings, _ Params) (*url.URL, error) {
		u, err := s.OpenFEMADeclarations.address("https://www.fema.gov/api/open/v2/DisasterDeclarationsSummaries", nil)
		if err != nil {
			return nil, err
		}
		return withDefaults(u, url.Values{
			"$top":     {strconv.Itoa(s.OpenFEMADeclarations.PageSize)},
			"$skip":    {"0"},
			"$orderby": {"id"}, // without an order, pages may overlap
			"$count":   {"true"},
			"$format":  {"json"},
		}), nil
	},
	Split:    splitOpenFEMADeclarations,
	endpoint: func(s *Settings) Endpoint { return s.OpenFEMADeclarations.Endpoint },
}

func splitOpenFEMADeclarations(body []byte, _ Params) (Page, error) {
	root, err := document(body)
	if err != nil {
		return Page{}, err
	}
	if err := refuseError(root); err != nil {
		return Page{}, err
	}
	declarations, metadata := member(root, "DisasterDeclarationsSummaries"), member(root, "metadata")
	if kindOf(declarations) != '[' || kindOf(metadata) != '{' {
		return Page{}, refused("not a page of disaster declarations")
	}
	items, err := rows(declarations, func(row []byte) (archive.Item, error) {
		id, err := identified(text(member(row, "id")), "the row's id")
		return archive.Item{ProductID: id, IssuedAt: zoned(member(row, "declarationDate"))}, err
	})
	if err != nil || len(items) == 0 {
		return Page{}, err
	}
	return Page{Items: items, Next: nextSkip(len(items), number(member(metadata, "top")), number(member(metadata, "count")))}, nil
}

// nextSkip asks for what follows, until a page is shorter than the size that
// the server says it used. That size can be smaller than the one asked for; a
// stated count (0 when the server did not count) says that there is more.
func nextSkip(received, used, counted int) Next {
	return func(asked *url.URL) (*url.URL, error) {
		query := asked.Query()
		wanted, _ := strconv.Atoi(query.Get("$top"))
		if used > 0 && (wanted == 0 || used < wanted) {
			wanted = used
		}
		skipped, _ := strconv.Atoi(query.Get("$skip"))
		if received < wanted && skipped+received >= counted {
			return nil, nil
		}
		return advanced(asked, "$skip", received), nil
	}
}

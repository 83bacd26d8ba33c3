package crawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxLinksBytes bounds one page's links file; 50,000 links take about 10 MiB.
const maxLinksBytes = 32 << 20

// linksFile is what of a .links.json is read.
type linksFile struct {
	FinalURL string `json:"finalUrl"`
	URL      string `json:"url"`
	Links    []link `json:"links"`
}

type link struct {
	Href string  `json:"href"`
	Rel  *string `json:"rel"`
}

// parseLinks reads a links file and returns the page's final URL and the links
// that may be followed, as they stand.
func parseLinks(data []byte) (pageURL, []string, error) {
	var file linksFile
	if err := json.Unmarshal(data, &file); err != nil {
		return pageURL{}, nil, errors.New("the links file is not JSON of the known form")
	}
	final := file.FinalURL
	if final == "" {
		final = file.URL
	}
	u, err := parseURL(final)
	if err != nil {
		return pageURL{}, nil, fmt.Errorf("the links file's final URL %w", err)
	}
	hrefs := make([]string, 0, len(file.Links))
	for _, l := range file.Links {
		if l.Rel == nil || !nofollow(*l.Rel) {
			hrefs = append(hrefs, l.Href)
		}
	}
	return u, hrefs, nil
}

// nofollow reads rel as HTML does: tokens, in any case.
func nofollow(rel string) bool {
	for token := range strings.FieldsSeq(rel) {
		if strings.EqualFold(token, "nofollow") {
			return true
		}
	}
	return false
}

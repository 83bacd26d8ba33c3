package feeds

import (
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// nhcHosts is where the hurricane center publishes what the entries link to.
var nhcHosts = []string{"www.nhc.noaa.gov"}

// stormID is the form of a storm's id: basin, number, year.
var stormID = regexp.MustCompile(`^[a-z]{2}[0-9]{6}$`)

// stormIn finds a storm's id at the start of a file's name.
var stormIn = regexp.MustCompile(`(?i)^b?([a-z]{2}[0-9]{6})`)

// stormRequests makes a request for each storm of CurrentStorms.json. The
// function completes it, or says that the storm has nothing of the kind.
func stormRequests(held []archive.Held, complete func(entry []byte, p *Params) bool) []Params {
	var requests []Params
	for _, storm := range held {
		if !stormID.MatchString(storm.ProductID) {
			continue
		}
		p := Params{Request: storm.ProductID, Storm: storm.ProductID}
		if complete([]byte(storm.Body), &p) {
			requests = append(requests, p)
		}
	}
	return distinct(requests)
}

// linked takes a link and the file's name from a storm's entry. Any product of
// an entry can be null.
func linked(entry []byte, p *Params, product, link string) bool {
	p.Link = text(member(entry, product, link))
	u, err := url.Parse(p.Link)
	if p.Link == "" || err != nil || u.Host == "" {
		return false
	}
	p.File = path.Base(u.Path)
	return checkName(p.File) == nil && p.File != "." && p.File != "/"
}

// stormFromFile takes the storm and the file's name from a recorded file.
func stormFromFile(file string) Params {
	p := Params{File: path.Base(file)}
	if found := stormIn.FindStringSubmatch(p.File); found != nil {
		p.Storm = strings.ToLower(found[1])
	}
	return p
}

// linkAddress returns where a followed link leads, or its override. Links from
// the publisher's older bodies say http where https is served.
func linkAddress(endpoint Endpoint, published []string, p Params, names map[string]string) (*url.URL, error) {
	link, err := url.Parse(p.Link)
	if err != nil {
		return nil, refused("the link that was followed is not a URL")
	}
	if link.Scheme == "http" && len(published) > 0 && strings.EqualFold(link.Host, published[0]) {
		link.Scheme = "https"
	}
	return endpoint.address(link.String(), names)
}

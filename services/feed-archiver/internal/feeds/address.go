package feeds

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Endpoint holds the two settings that every source has.
type Endpoint struct {
	// URL replaces the source's address. With {names} in it, it is a template with
	// the names of the default; with an empty path or one that ends in a slash,
	// it is a base under which the default's path is asked for; otherwise it is
	// asked for as it stands. Parameters of the default that it does not state
	// are added. Only its host is then read, whatever the bodies link to.
	URL string `env:"URL"`
	// Every replaces the source's interval between reads.
	Every time.Duration `env:"EVERY"`
}

func (e Endpoint) validate(name string) error {
	if e.Every < 0 {
		return fmt.Errorf("%sEVERY (%s) must not be negative", name, e.Every)
	}
	if e.URL == "" {
		return nil
	}
	u, err := url.Parse(e.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return fmt.Errorf("%sURL must be an absolute http:// or https:// URL without a user", name)
	}
	return nil
}

// host returns the override's host, or "" where there is none.
func (e Endpoint) host() string {
	u, err := url.Parse(e.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// hosts returns where the source's requests may go: to the override's host, or
// to the publisher's; and, as a source follows the links of another's bodies, to
// where those were read.
func (s *Source) hosts(settings *Settings) []string {
	if override := s.endpoint(settings).host(); override != "" {
		return []string{override}
	}
	if followed, ok := Find(s.Follows); ok {
		if override := followed.endpoint(settings).host(); override != "" {
			return append(slices.Clone(s.Hosts), override)
		}
	}
	return s.Hosts
}

// address fills the names into the default address, or into its override.
func (e Endpoint) address(template string, names map[string]string) (*url.URL, error) {
	byDefault, err := expand(template, names)
	if err != nil || e.URL == "" {
		return byDefault, err
	}
	override, err := expand(e.URL, names)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(e.URL, "{") && strings.HasSuffix("/"+override.Path, "/") {
		override = override.JoinPath(byDefault.EscapedPath())
	}
	return withDefaults(override, byDefault.Query()), nil
}

// expand replaces {name} by the escaped value; commas stay, as the services
// write them. The error repeats no value: one of them may be a key.
func expand(template string, names map[string]string) (*url.URL, error) {
	for name, value := range names {
		escaped := strings.ReplaceAll(url.PathEscape(value), "%2C", ",")
		template = strings.ReplaceAll(template, "{"+name+"}", escaped)
	}
	u, err := url.Parse(template)
	if err != nil {
		return nil, fmt.Errorf("the address cannot be built")
	}
	return u, nil
}

// withDefaults adds the parameters that the URL does not state. The URL is left
// alone when there is nothing to add, so that its own spelling is kept.
func withDefaults(u *url.URL, defaults url.Values) *url.URL {
	query, changed := u.Query(), false
	for name, values := range defaults {
		if !query.Has(name) {
			query[name], changed = values, true
		}
	}
	if !changed {
		return u
	}
	result := *u
	result.RawQuery = query.Encode()
	return &result
}

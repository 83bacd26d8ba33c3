// Package feeds knows the federal hazard feeds: where each is read, and how an
// answer is split into the products that its publisher means. One source is
// one file of one shape; the list of them is Sources.
//
// It stores nothing and interprets nothing: an item leaves here in the bytes
// that came in, named as its publisher names it, with the time that it states
// itself or none. A body that is not wholly what the source publishes is
// refused, because half a feed looks like a calm one.
package feeds

import (
	"net/url"
	"slices"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// Sources lists every source.
var Sources = []*Source{
	&nwsAlerts,
	&usgsEarthquakes,
	&nhcCurrentStorms,
	&nhcATCFBestTrack,
	&spcDay1Outlook,
	&nifcPerimeters,
	&nwsDATSurveys,
	&usgsSTNHWMs,
	&usgsShakeMapProducts,
	&usgsShakeMapContours,
	&nhcWindSwath,
	&nhcForecastCone,
	&nhcSurge,
	&nasaFIRMS,
	&openFEMADeclarations,
}

// Source describes one feed. A source may be several requests; each is a read
// of its own.
type Source struct {
	// Name is the source's name in the archive, Rights its entry in the register.
	Name   string
	Rights string
	// Accept is the media type to ask for, Hosts where the feed is published.
	Accept string
	Hosts  []string
	// Every is how often each request is read unless a setting says otherwise.
	Every time.Duration
	// MaxPages and MaxBytes (per page) bound a read; one that needs more fails.
	MaxPages int
	MaxBytes int64
	// Removed lists the members that are taken out before storing, personal ones
	// and those that change by themselves, in the form of Read.RemovedFields.
	Removed []string
	// Follows names the source whose last read decides what is asked of this one.
	Follows string
	// Requests lists the reads that are due, given what the last reads of the
	// followed source held.
	Requests func(s *Settings, held []archive.Held) []Params
	// Address returns where a request is read.
	Address func(s *Settings, p Params) (*url.URL, error)
	// Split turns one body into its products. It is used for what was fetched and
	// for recorded bodies alike, and its errors are ErrRefused.
	Split func(body []byte, p Params) (Page, error)
	// FromFile fills in what a recorded file's name says of the request; nil
	// where it says nothing that Split needs.
	FromFile func(file string) Params
	// secret returns the key that a request's address holds; nil for no key.
	secret   func(s *Settings) string
	endpoint func(s *Settings) Endpoint
}

// Params tell one request of a source from another, and carry what the body
// that led to it said.
type Params struct {
	// Request is the read's name in the archive: short, stable, without keys.
	Request string
	// Query, Layer, Product and Area narrow what is asked for.
	Query, Layer, Product, Area string
	// Event, Storm, Version, Source and Code identify what the body belongs to.
	Event, Storm, Version, Source, Code string
	// Member is what a body's features must have.
	Member string
	// Link is the address that the followed body gave, File its last element.
	Link, File string
	// IssuedAt is the issue time that the followed body gave.
	IssuedAt *time.Time
}

// distinct drops requests of a name that came before: an event can be in two
// of the reads that are followed.
func distinct(requests []Params) []Params {
	seen := map[string]bool{}
	return slices.DeleteFunc(requests, func(p Params) bool {
		again := seen[p.Request]
		seen[p.Request] = true
		return again
	})
}

// Page is one split body.
type Page struct {
	Items []archive.Item
	// Next leads to the following page; nil when the body says it is the last.
	Next Next
	// EmptyEnds says that a page without items, after others, is the end although
	// it leads on. A first page without items is not: a quiet read should not
	// rest on a page that says there are more.
	EmptyEnds bool
}

// Next returns the address of the page after the one that was asked for.
type Next func(asked *url.URL) (*url.URL, error)

// Find returns the source of a name.
func Find(name string) (*Source, bool) {
	i := slices.IndexFunc(Sources, func(s *Source) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return Sources[i], true
}

// Interval is how often each request of the source is read.
func (s *Source) Interval(settings *Settings) time.Duration {
	if every := s.endpoint(settings).Every; every > 0 {
		return every
	}
	return s.Every
}

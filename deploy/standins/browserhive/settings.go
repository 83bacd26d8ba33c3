package browserhive

import (
	"fmt"
	"time"
)

// Settings are the stand-in's limits and knobs; the zero value of each limit
// takes the default named with it.
type Settings struct {
	// NavigationTimeout bounds the fetching of the page itself (30s).
	NavigationTimeout time.Duration
	// CaptureTimeout bounds the whole capture, BrowserHive's budget (130s).
	CaptureTimeout time.Duration
	// ManifestTimeout bounds the writing of the manifest (10s).
	ManifestTimeout time.Duration
	// BodyCap is the size over which a body is left out and named under
	// truncatedUrls (2 MiB).
	BodyCap int64
	// MaxResources bounds how many images, styles and scripts of a page are
	// fetched (100).
	MaxResources int
	// LateManifest, unless empty, is the part of a page's URL that makes its
	// manifest late; see the package comment.
	LateManifest string
	// LateManifestDelay is how late at most (30s).
	LateManifestDelay time.Duration
}

func (s Settings) withDefaults() (Settings, error) {
	defaults := []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&s.NavigationTimeout, 30 * time.Second},
		{&s.CaptureTimeout, 130 * time.Second},
		{&s.ManifestTimeout, 10 * time.Second},
		{&s.LateManifestDelay, 30 * time.Second},
	}
	for _, d := range defaults {
		if *d.value == 0 {
			*d.value = d.def
		}
		if *d.value < 0 {
			return Settings{}, fmt.Errorf("a limit of %s is not a limit", *d.value)
		}
	}
	if s.BodyCap == 0 {
		s.BodyCap = 2 << 20
	}
	if s.MaxResources == 0 {
		s.MaxResources = 100
	}
	if s.BodyCap < 0 || s.MaxResources < 0 {
		return Settings{}, fmt.Errorf("a body cap of %d or %d resources is not a limit", s.BodyCap, s.MaxResources)
	}
	return s, nil
}

package crawl

import "slices"

// The scopes of a crawl.
const (
	SameOrigin = "same-origin"
	SameHost   = "same-host"
)

// scope says which pages are inside: those that share the origin (scheme, host
// and port), or the host whatever its scheme and port, with one of its keys.
//
// The keys are those of the seeds, and those of where a redirected seed
// arrived: whoever asks for http://example.org means what it leads to. A page
// that was not a seed and left the scope by a redirect does not extend it, and
// its links are not followed: scope is judged against the page's final URL.
type scope struct {
	kind string
	keys []string
	set  map[string]struct{}
}

func newScope(kind string, keys []string) *scope {
	s := &scope{kind: kind, set: make(map[string]struct{}, len(keys))}
	for _, key := range keys {
		s.addKey(key)
	}
	return s
}

func (s *scope) key(u pageURL) string {
	if s.kind == SameHost {
		return u.host
	}
	return u.origin
}

func (s *scope) add(u pageURL) { s.addKey(s.key(u)) }

func (s *scope) addKey(key string) {
	if _, known := s.set[key]; !known {
		s.set[key] = struct{}{}
		s.keys = append(s.keys, key)
	}
}

func (s *scope) holds(u pageURL) bool {
	_, inside := s.set[s.key(u)]
	return inside
}

// list returns the keys in the order in which they came.
func (s *scope) list() []string { return slices.Clone(s.keys) }

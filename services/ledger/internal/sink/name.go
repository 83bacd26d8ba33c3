package sink

import (
	"strings"
	"unicode/utf8"
)

// maxNameBytes bounds a file name.
const maxNameBytes = 255

// badName returns the rule that a file name breaks, or "". Names are the
// browser's; they are kept as they are and never parsed.
func badName(name string) string {
	switch {
	case name == "" || name == ".":
		return "must not be empty"
	case !utf8.ValidString(name):
		return "must be valid UTF-8"
	case len(name) > maxNameBytes:
		return "must be at most 255 bytes of UTF-8"
	case strings.ContainsAny(name, "/\\\x00"):
		return `must not contain "/", "\" or NUL`
	case strings.Contains(name, ".."):
		return `must not contain ".."`
	}
	return ""
}

package crawl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// maxURLBytes bounds a page's URL.
const maxURLBytes = 8192

// pageURL is an http(s) URL as the ledger keeps it.
type pageURL struct {
	// text is the whole URL, without a fragment.
	text string
	// origin is scheme://host[:port]; host has no port.
	origin, host string
}

// parseURL reads an absolute http(s) URL. It drops the fragment and does what
// URL parsing itself requires: lower-case scheme and host, no default port, an
// empty path becomes "/", and what is not ASCII is spelled as in a request line
// (percent-escapes in path and query, punycode in the host). Percent-escapes
// that are there, query order and trailing slashes are left alone: whether two
// spellings are one page is the site's business.
func parseURL(raw string) (pageURL, error) {
	if err := checkText(raw); err != nil {
		return pageURL{}, err
	}
	text, _, _ := strings.Cut(raw, "#")
	scheme, rest, ok := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	if !ok || (scheme != "http" && scheme != "https") {
		return pageURL{}, errors.New("must be an absolute http(s) URL")
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	host, port, err := parseAuthority(scheme, authority)
	if err != nil {
		return pageURL{}, err
	}
	if !strings.HasPrefix(tail, "/") {
		tail = "/" + tail
	}
	u := pageURL{host: host, origin: scheme + "://" + bracketed(host) + port}
	u.text = u.origin + escapeNonASCII(tail)
	if len(u.text) > maxURLBytes {
		return pageURL{}, fmt.Errorf("must be at most %d bytes", maxURLBytes)
	}
	return u, nil
}

func checkText(raw string) error {
	switch {
	case raw == "":
		return errors.New("must not be empty")
	case len(raw) > maxURLBytes:
		return fmt.Errorf("must be at most %d bytes", maxURLBytes)
	case !utf8.ValidString(raw):
		return errors.New("must be valid UTF-8")
	case strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return errors.New("must not contain white space or control characters")
	case strings.Contains(raw, `\`):
		return errors.New(`must not contain '\'`)
	}
	return nil
}

// parseAuthority returns the host, lower-case and without brackets, and the port
// with its colon, empty where it is the scheme's own.
func parseAuthority(scheme, authority string) (host, port string, err error) {
	u, err := url.Parse(scheme + "://" + authority + "/")
	if err != nil || u.Hostname() == "" {
		return "", "", errors.New("must name a host")
	}
	if u.User != nil {
		return "", "", errors.New("must not hold a user name or password")
	}
	host = u.Hostname()
	if net.ParseIP(host) == nil {
		// The host of a URL may be spelled in any script; a request's is ASCII.
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			if host, err = plainHost(u.Hostname()); err != nil {
				return "", "", err
			}
		}
	}
	host = strings.ToLower(host)
	port = u.Port()
	if port == "" || (scheme == "http" && port == "80") || (scheme == "https" && port == "443") {
		return host, "", nil
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", "", errors.New("must have a port from 0 to 65535")
	}
	return host, ":" + port, nil
}

// plainHost lets names pass that the strict rules for international names
// refuse and that sites use all the same, such as a_b.example.org.
func plainHost(host string) (string, error) {
	for _, r := range host {
		if r != '.' && r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return "", errors.New("must name a valid host")
		}
	}
	return host, nil
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

func escapeNonASCII(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < utf8.RuneSelf {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

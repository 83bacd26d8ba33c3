package fetch

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// maxRedirects is more than any of the feeds needs.
const maxRedirects = 4

// following returns an HTTP client that follows redirects to the request's
// hosts only. A redirect elsewhere would send a key to a stranger, and would
// let whoever controls one server choose what is archived as another's word.
func (c *Client) following(r Request) *http.Client {
	return &http.Client{
		Transport: c.base,
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			status := next.Response.StatusCode
			switch {
			case len(via) > maxRedirects:
				return failed(status, "more than %d redirects", maxRedirects)
			case !allowed(r.Hosts, next.URL):
				return failed(status, "a redirect to %s, which is not among the source's hosts", next.URL.Host)
			case via[0].URL.Scheme == "https" && next.URL.Scheme != "https":
				return failed(status, "a redirect from https to %s", next.URL.Scheme)
			}
			// The default adds the previous URL, which may hold a key.
			next.Header.Del("Referer")
			return nil
		},
	}
}

// allowed says whether a URL may be asked for.
func allowed(hosts []string, u *url.URL) bool {
	return (u.Scheme == "https" || u.Scheme == "http") && u.User == nil &&
		slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, u.Host) })
}

// containsSecret also looks for the form that the key has inside a URL.
func containsSecret(body []byte, secret string) bool {
	return bytes.Contains(body, []byte(secret)) || bytes.Contains(body, []byte(url.PathEscape(secret)))
}

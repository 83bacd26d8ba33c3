package crawl

import (
	"strings"
	"testing"
)

func TestParseURLRewritesOnlyWhatParsingRequires(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"HTTP://Example.ORG":                 "http://example.org/",
		"http://example.org:80/a#part":       "http://example.org/a",
		"https://example.org:443?b=2&a=1":    "https://example.org/?b=2&a=1",
		"https://example.org:80/":            "https://example.org:80/",
		"http://example.org:/":               "http://example.org/",
		"http://example.org/%e6%b8%af/%7Ea/": "http://example.org/%e6%b8%af/%7Ea/",
		"http://example.org/港.html?q=港":      "http://example.org/%E6%B8%AF.html?q=%E6%B8%AF",
		"http://example.org/a/../b//c/":      "http://example.org/a/../b//c/",
		"http://example.org/100%":            "http://example.org/100%",
		"http://[::1]:8080/x":                "http://[::1]:8080/x",
		"http://a_b.example.org/":            "http://a_b.example.org/",
		"http://例え.jp/":                      "http://xn--r8jz45g.jp/",
		"http://example.org/?u=http://x/#/y": "http://example.org/?u=http://x/",
	} {
		got, err := parseURL(raw)
		if err != nil || got.text != want {
			t.Errorf("%s: got %q, %v; want %q", raw, got.text, err, want)
		}
		again, err := parseURL(got.text)
		if err != nil || again != got {
			t.Errorf("%s: not stable: %q becomes %q", raw, got.text, again.text)
		}
	}
	for _, bad := range []string{
		"", "example.org", "//example.org/", "ftp://example.org/", "javascript:alert(1)", "http://", "http:///a", "http://a b/",
		"http://a/b c", "http://u:p@example.org/", "http://example.org:99999/", "http://example.org:x/", "http://a/\x00", "http://a\\b/", "http://a/" + strings.Repeat("x", 8192), "http://a/\xff",
	} {
		if got, err := parseURL(bad); err == nil {
			t.Errorf("%q passed as %q", bad, got.text)
		}
	}
}

func TestScope(t *testing.T) {
	t.Parallel()
	cases := []struct {
		kind, seed, page string
		inside           bool
	}{
		{SameOrigin, "http://a.org/x", "http://a.org/y", true},
		{SameOrigin, "http://a.org/x", "http://a.org:8080/y", false},
		{SameOrigin, "http://a.org/x", "https://a.org/y", false},
		{SameOrigin, "http://a.org/x", "http://A.ORG:80/y", true},
		{SameHost, "http://a.org/x", "https://a.org:8443/y", true},
		{SameHost, "http://a.org/x", "http://b.a.org/y", false},
	}
	for _, c := range cases {
		seed, _ := parseURL(c.seed)
		page, _ := parseURL(c.page)
		s := newScope(c.kind, nil)
		s.add(seed)
		if got := s.holds(page); got != c.inside {
			t.Errorf("%s of %s holds %s: %t", c.kind, c.seed, c.page, got)
		}
	}
}

func TestParseLinksLeavesOutNofollow(t *testing.T) {
	t.Parallel()
	final, hrefs, err := parseLinks([]byte(`{"url":"http://a/","finalUrl":"http://a/b","links":[
		{"href":"http://a/1","rel":null},{"href":"http://a/2","rel":"noopener NoFollow"},{"href":"http://a/3","rel":"nofollowed"},{"href":"http://a/4"}]}`))
	if err != nil || final.text != "http://a/b" || strings.Join(hrefs, " ") != "http://a/1 http://a/3 http://a/4" {
		t.Errorf("got %+v, %v, %v", final, hrefs, err)
	}
	for _, bad := range []string{"<html>", `{"links":[]}`, `{"url":"x"}`, `[]`} {
		if _, _, err := parseLinks([]byte(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

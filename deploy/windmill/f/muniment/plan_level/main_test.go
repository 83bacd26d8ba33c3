package inner

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestMainPlansALevel(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	site := robotsSite(t, &asked, http.StatusOK, "User-agent: *\nDisallow: /docs/hidden\nCrawl-delay: 3\n")
	finished := time.Now().Add(-time.Second)
	host := strings.TrimPrefix(site.URL, "http://")
	made, err := main([]page{
		{URL: site.URL + "/a", Host: host},
		{URL: site.URL + "/docs/hidden.html", Host: host, LastFinishedAt: &finished},
		{URL: site.URL + "/b", Host: host},
	}, 2000, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Hosts) != 1 || !slices.Equal(made.Hosts[0].Pages, []string{site.URL + "/a", site.URL + "/b"}) {
		t.Fatalf("plan %+v", made)
	}
	// The longer delay is the site's 3 s, and one of them has passed.
	if h := made.Hosts[0]; h.DelayMS != 3000 || h.NotBefore.Sub(finished).Round(time.Millisecond) != 3*time.Second {
		t.Errorf("delay %d ms, not before %s after the last finish", h.DelayMS, h.NotBefore.Sub(finished))
	}
	if len(made.Skipped) != 1 || made.Skipped[0].Status != "skipped" || !strings.Contains(made.Skipped[0].SkipReason, "/docs/hidden") {
		t.Errorf("skipped %+v", made.Skipped)
	}
	if asked.Load() != 1 {
		t.Errorf("robots.txt was asked for %d times", asked.Load())
	}
}

func TestMainRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	if _, err := main(nil, 2000, "yes"); err == nil || !strings.Contains(err.Error(), "f/muniment/respect_robots") {
		t.Errorf("a bad switch: %v", err)
	}
	if _, err := main(nil, -1, "true"); err == nil {
		t.Error("a negative delay passed")
	}
	if _, err := main([]page{{URL: "ftp://x/"}}, 0, "false"); err == nil {
		t.Error("an ftp URL passed")
	}
}

func TestAnEmptyLevelIsListsAndNotNull(t *testing.T) {
	t.Parallel()
	made, err := main(nil, 0, "true")
	if err != nil || made.Hosts == nil || made.Skipped == nil {
		t.Errorf("plan %+v, %v", made, err)
	}
}

func TestRobotsCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	site := robotsSite(t, &asked, http.StatusOK, "User-agent: *\nDisallow: /\n")
	made, err := main([]page{{URL: site.URL + "/"}}, 0, "false")
	if err != nil || len(made.Hosts) != 1 || asked.Load() != 0 {
		t.Errorf("plan %+v, %v, asked %d times", made, err, asked.Load())
	}
}

func TestRobotsThatIsNotThere(t *testing.T) {
	t.Parallel()
	for status, taken := range map[int]bool{404: true, 403: true, 401: true, 429: false, 500: false, 503: false} {
		site := robotsSite(t, new(atomic.Int32), status, "User-agent: *\nDisallow: /\n")
		made, err := main([]page{{URL: site.URL + "/"}}, 0, "true")
		if err != nil || (len(made.Hosts) == 1) != taken {
			t.Errorf("robots.txt answered %d: plan %+v, %v", status, made, err)
		}
	}
	dead := robotsSite(t, new(atomic.Int32), http.StatusOK, "")
	dead.Close()
	made, err := main([]page{{URL: dead.URL + "/"}}, 0, "true")
	if err != nil || len(made.Hosts) != 0 || len(made.Skipped) != 1 {
		t.Errorf("robots.txt not reached: plan %+v, %v", made, err)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		robots  string
		refused []string
		allowed []string
		delay   time.Duration
	}{
		"named group outranks the star": {
			"User-agent: *\nDisallow: /\n\nUser-agent: Muniment\nDisallow: /x\n",
			[]string{"/x", "/x/y", "/xyz"},
			[]string{"/", "/y"},
			0,
		},
		"groups of one name add up, agents share rules": {
			"User-agent: other\nUser-agent: muniment/2.0\nDisallow: /a\n\nSitemap: /s\nUser-agent: muniment\nDisallow: /b\nCrawl-delay: 1.5\n",
			[]string{"/a", "/b"},
			[]string{"/c"},
			1500 * time.Millisecond,
		},
		"longest wins, allow wins a tie": {
			"User-agent: *\nDisallow: /p\nAllow: /p/open\nDisallow: /t\nAllow: /t\n",
			[]string{"/p", "/p/closed"},
			[]string{"/p/open/1", "/t"},
			0,
		},
		"star and dollar": {
			"User-agent: *\nDisallow: /*.pdf$\nDisallow: /a*b*c\nDisallow: /exact$\n",
			[]string{"/x/y.pdf", "/aXbYcZ", "/abc", "/exact"},
			[]string{"/y.pdf?x=1", "/acb", "/exact/", "/pdf"},
			0,
		},
		"encodings compare equal": {
			"User-agent: *\nDisallow: /港\nDisallow: /%7euser\nDisallow: /q?a=%2f\n",
			[]string{"/%E6%B8%AF.html", "/%e6%b8%af", "/~user", "/q?a=%2F1"},
			[]string{"/%25E6"},
			0,
		},
		"an empty disallow forbids nothing": {"User-agent: *\nDisallow:\n", nil, []string{"/"}, 0},
		"comments, odd ends, a byte order mark": {
			"\ufeffUser-agent: * # all\r\nDisallow: /z # no\rCrawl-delay: nonsense\n", []string{"/z"}, []string{"/"}, 0,
		},
		"a crawl delay of ages is a day":   {"User-agent: *\nCrawl-delay: 1e300\n", nil, []string{"/"}, longestDelay},
		"robots.txt itself is always free": {"User-agent: *\nDisallow: /\n", []string{"/a"}, []string{"/robots.txt"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := parseRobots(tc.robots)
			for _, path := range slices.Concat(tc.refused, tc.allowed) {
				u, err := url.Parse("http://example.org" + path)
				if err != nil {
					t.Fatal(err)
				}
				want := slices.Contains(tc.refused, path)
				if got := r.refuses(u) != ""; got != want {
					t.Errorf("%s: refused %t, want %t", path, got, want)
				}
			}
			if r.delay != tc.delay {
				t.Errorf("delay %s, want %s", r.delay, tc.delay)
			}
		})
	}
}

func TestNotBefore(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct{ finished, want time.Time }{
		"never taken":       {time.Time{}, now},
		"long ago":          {now.Add(-time.Hour), now},
		"just now":          {now.Add(-time.Second), now.Add(time.Second)},
		"in the future":     {now.Add(time.Hour), now.Add(2 * time.Second)},
		"exactly the delay": {now.Add(-2 * time.Second), now},
	} {
		if got := notBefore(tc.finished, 2*time.Second, now); !got.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestReasonsKeepTheLedgersLimit(t *testing.T) {
	t.Parallel()
	site := robotsSite(t, new(atomic.Int32), http.StatusOK, "User-agent: *\nDisallow: /"+strings.Repeat("*", 5000)+"\n")
	made, err := main([]page{{URL: site.URL + "/x"}}, 0, "")
	if err != nil || len(made.Skipped) != 1 || len(made.Skipped[0].SkipReason) != maxReason {
		t.Errorf("plan %+v, %v", made, err)
	}
}

func robotsSite(t *testing.T, asked *atomic.Int32, status int, text string) *httptest.Server {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" {
			t.Errorf("%s was asked for", r.URL.Path)
		}
		asked.Add(1)
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}))
	t.Cleanup(site.Close)
	return site
}

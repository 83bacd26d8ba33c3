// Package inner is the Windmill script f/muniment/plan_level/main: it groups a
// level's pages by host, leaves out what robots.txt forbids, and says how far
// apart each host's pages must be and when the first may be taken.
package inner

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// robotsAgent is the name that a robots.txt addresses us by.
	robotsAgent = "muniment"
	// robotsTimeout bounds the reading of one robots.txt.
	robotsTimeout = 10 * time.Second
	// robotsBytes is how much of a robots.txt is read; RFC 9309 asks for 500 KiB
	// at least.
	robotsBytes = 512 << 10
	// robotsRedirects is how many redirects of a robots.txt are followed.
	robotsRedirects = 5
	// robotsAtOnce bounds how many hosts are asked at the same time.
	robotsAtOnce = 16
	// longestDelay bounds a Crawl-delay, which may say anything.
	longestDelay = 24 * time.Hour
	// maxReason is the ledger's limit for a reason, in characters.
	maxReason = 2000
)

// page is one entry of the frontier that the ledger sent.
type page struct {
	URL            string     `json:"url"`
	Host           string     `json:"host"`
	LastFinishedAt *time.Time `json:"lastFinishedAt"`
}

// hostPlan is the work of one host, in order.
type hostPlan struct {
	Host  string   `json:"host"`
	Pages []string `json:"pages"`
	// DelayMS is the least time between the end of one capture and the start of
	// the next.
	DelayMS int64 `json:"delayMs"`
	// NotBefore is when the first capture may start.
	NotBefore time.Time `json:"notBefore"`
}

// result is a page's line in the level report.
type result struct {
	URL        string `json:"url"`
	Status     string `json:"status"`
	SkipReason string `json:"skipReason"`
}

// plan is the script's answer. Skipped pages go to the report as they are.
type plan struct {
	Hosts   []hostPlan `json:"hosts"`
	Skipped []result   `json:"skipped"`
}

// main is called by Windmill. respectRobots is a Windmill variable and so a
// text: "false" switches robots.txt off, "true" or nothing leaves it on.
func main(frontier []page, perHostDelayMs int64, respectRobots string) (plan, error) {
	respect, err := parseSwitch(respectRobots)
	if err != nil {
		return plan{}, err
	}
	if perHostDelayMs < 0 {
		return plan{}, fmt.Errorf("perHostDelayMs is %d; a delay cannot be negative", perHostDelayMs)
	}
	p := planner{
		delay: time.Duration(perHostDelayMs) * time.Millisecond,
		now:   time.Now,
		client: &http.Client{
			Timeout: robotsTimeout,
			// Past the limit the redirect itself is the answer: no robots.txt.
			CheckRedirect: func(_ *http.Request, via []*http.Request) error {
				if len(via) > robotsRedirects {
					return http.ErrUseLastResponse
				}
				return nil
			},
		},
	}
	return p.plan(frontier, respect)
}

func parseSwitch(value string) (bool, error) {
	switch strings.TrimSpace(value) {
	case "", "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("respectRobots is %q; want true or false (Windmill variable f/muniment/respect_robots)", value)
}

type planner struct {
	delay  time.Duration
	now    func() time.Time
	client *http.Client
}

// host is a host's pages before and while they are judged.
type host struct {
	name     string
	pages    []page
	plan     hostPlan
	skipped  []result
	finished time.Time
}

func (p planner) plan(frontier []page, respect bool) (plan, error) {
	hosts, err := group(frontier)
	if err != nil {
		return plan{}, err
	}
	turn := make(chan struct{}, robotsAtOnce)
	for _, h := range hosts {
		turn <- struct{}{}
		go func() {
			p.judge(h, respect)
			<-turn
		}()
	}
	// Whoever holds every turn knows that all hosts are judged.
	for range robotsAtOnce {
		turn <- struct{}{}
	}
	made := plan{Hosts: []hostPlan{}, Skipped: []result{}}
	for _, h := range hosts {
		made.Skipped = append(made.Skipped, h.skipped...)
		if len(h.plan.Pages) > 0 {
			made.Hosts = append(made.Hosts, h.plan)
		}
	}
	return made, nil
}

// group keeps the frontier's order, of the hosts and of the pages in each.
func group(frontier []page) ([]*host, error) {
	var hosts []*host
	byName := map[string]*host{}
	for _, pg := range frontier {
		u, err := url.Parse(pg.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("the frontier holds %q, which is not an absolute http(s) URL", pg.URL)
		}
		name := pg.Host
		if name == "" {
			name = u.Host
		}
		h := byName[name]
		if h == nil {
			h = &host{name: name}
			byName[name] = h
			hosts = append(hosts, h)
		}
		h.pages = append(h.pages, pg)
		if pg.LastFinishedAt != nil && pg.LastFinishedAt.After(h.finished) {
			h.finished = *pg.LastFinishedAt
		}
	}
	return hosts, nil
}

// judge asks robots.txt once for each origin of the host (a host has one, save
// where it is reached by both schemes) and makes the host's plan.
func (p planner) judge(h *host, respect bool) {
	delay := p.delay
	asked := map[string]robots{}
	h.plan = hostPlan{Host: h.name, Pages: []string{}}
	for _, pg := range h.pages {
		if respect {
			u, err := url.Parse(pg.URL)
			if err != nil {
				continue // group has parsed it
			}
			origin := u.Scheme + "://" + u.Host
			rules, known := asked[origin]
			if !known {
				rules = p.robots(origin)
				asked[origin] = rules
			}
			delay = max(delay, rules.delay)
			if reason := rules.refuses(u); reason != "" {
				h.skipped = append(h.skipped, result{URL: pg.URL, Status: "skipped", SkipReason: cut(reason)})
				continue
			}
		}
		h.plan.Pages = append(h.plan.Pages, pg.URL)
	}
	h.plan.DelayMS = delay.Milliseconds()
	h.plan.NotBefore = notBefore(h.finished, delay, p.now())
}

// cut keeps a reason within the ledger's limit.
func cut(reason string) string {
	if runes := []rune(reason); len(runes) > maxReason {
		return string(runes[:maxReason])
	}
	return reason
}

// notBefore is the last finish plus the delay, but never in the past and, where
// two clocks disagree, never more than one delay ahead.
func notBefore(finished time.Time, delay time.Duration, now time.Time) time.Time {
	at := now
	if !finished.IsZero() {
		at = finished.Add(delay)
	}
	if at.Before(now) {
		at = now
	}
	if latest := now.Add(delay); at.After(latest) {
		at = latest
	}
	return at.UTC()
}

// robots is what a robots.txt says to us.
type robots struct {
	rules []rule
	delay time.Duration
	// unreachable says why everything is forbidden (RFC 9309, 2.3.1.4).
	unreachable string
}

type rule struct {
	allow   bool
	pattern string
}

// robots reads an origin's robots.txt. None there means that all is allowed;
// one that cannot be reached means that nothing is.
func (p planner) robots(origin string) robots {
	ctx, cancel := context.WithTimeout(context.Background(), robotsTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, origin+"/robots.txt", nil)
	if err != nil {
		return robots{unreachable: "robots.txt cannot be asked for: " + err.Error()}
	}
	req.Header.Set("User-Agent", robotsAgent)
	resp, err := p.client.Do(req)
	if err != nil {
		return robots{unreachable: "robots.txt cannot be reached: " + err.Error()}
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return robots{unreachable: fmt.Sprintf("robots.txt cannot be read: the host answered %d", resp.StatusCode)}
	case resp.StatusCode >= 300:
		return robots{}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, robotsBytes))
	if err != nil {
		return robots{unreachable: "robots.txt cannot be read: " + err.Error()}
	}
	return parseRobots(string(body))
}

// parseRobots keeps the groups that address us by name or, where none does,
// those that address everybody.
func parseRobots(text string) robots {
	var ours, everybody robots
	var named, forUs, forAll, inRules bool
	for text = strings.TrimPrefix(text, "\ufeff"); text != ""; {
		end := strings.IndexAny(text, "\r\n")
		if end < 0 {
			end = len(text)
		}
		line, _, _ := strings.Cut(text[:end], "#")
		text = text[min(end+1, len(text)):]
		key, value, found := strings.Cut(line, ":")
		if !found {
			continue
		}
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		if key == "user-agent" {
			if inRules {
				forUs, forAll, inRules = false, false, false
			}
			forAll = forAll || value == "*"
			if product, _, _ := strings.Cut(value, "/"); strings.EqualFold(strings.TrimSpace(product), robotsAgent) {
				forUs, named = true, true
			}
			continue
		}
		if key != "allow" && key != "disallow" && key != "crawl-delay" {
			continue // sitemaps and what else there is do not end a group
		}
		inRules = true
		if forUs {
			ours.add(key, value)
		}
		if forAll {
			everybody.add(key, value)
		}
	}
	if named {
		return ours
	}
	return everybody
}

func (r *robots) add(key, value string) {
	switch {
	case key == "crawl-delay":
		if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 {
			r.delay = longestDelay
			if seconds < longestDelay.Seconds() {
				r.delay = time.Duration(seconds * float64(time.Second))
			}
		}
	case value != "":
		r.rules = append(r.rules, rule{allow: key == "allow", pattern: normalPath(value)})
	}
}

// refuses says why the page may not be taken, or nothing. The longest matching
// rule decides; of two as long, the one that allows.
func (r *robots) refuses(u *url.URL) string {
	if r.unreachable != "" {
		return r.unreachable
	}
	target := normalPath(u.EscapedPath())
	if target == "" {
		target = "/"
	}
	if u.RawQuery != "" {
		target += "?" + normalPath(u.RawQuery)
	}
	allowed, longest, by := true, -1, ""
	for _, rl := range r.rules {
		if len(rl.pattern) < longest || (len(rl.pattern) == longest && !rl.allow) || !rl.matches(target) {
			continue
		}
		allowed, longest, by = rl.allow, len(rl.pattern), rl.pattern
	}
	if allowed || target == "/robots.txt" {
		return ""
	}
	return "robots.txt forbids it: Disallow: " + by
}

// matches compares a pattern with the beginning of a path: a star is anything, a
// dollar at the end is the end, all else stands for itself. It needs no regular
// expression, whose compiler a hostile pattern could overtax.
func (r rule) matches(target string) bool {
	body, anchored := strings.CutSuffix(r.pattern, "$")
	parts := strings.Split(body, "*")
	rest, ok := strings.CutPrefix(target, parts[0])
	if !ok {
		return false
	}
	for i, part := range parts[1:] {
		if anchored && i == len(parts)-2 {
			return strings.HasSuffix(rest, part)
		}
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return !anchored || rest == ""
}

// normalPath spells the same path the same way: what is not ASCII is
// percent-encoded, what need not be encoded is not, and hex is upper case.
func normalPath(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' && i+2 < len(path) {
			if v, err := strconv.ParseUint(path[i+1:i+3], 16, 8); err == nil {
				i += 2
				if unreserved(byte(v)) {
					b.WriteByte(byte(v))
				} else {
					fmt.Fprintf(&b, "%%%02X", v)
				}
				continue
			}
		}
		if c < 0x21 || c > 0x7e {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

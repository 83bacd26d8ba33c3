package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/testkit"
)

func TestTargetsOverTheGateway(t *testing.T) {
	t.Parallel()
	f := newFlow(t, func(w http.ResponseWriter) { fmt.Fprint(w, uuid.NewString()) })
	l := newLedger(t, "WEBHOOK_URL="+f.URL, "SINK_ORIGIN=http://127.0.0.1:1")
	l.start(t)
	l.grant(t, "alice", "acme")
	l.grant(t, "bert", "beta")
	alice, bert, mallory := l.issuer.Token("alice", "other", "acme"), l.issuer.Token("bert", "beta"), l.issuer.Token("mallory", "acme")
	add := func(body string) map[string]any { return l.call(t, 200, "POST", "/api/targets", alice, body) }

	// Shape comes before authorization, which comes before the work.
	for _, tc := range [][4]string{
		{"POST", "/api/targets", `{}`, "targets"},
		{"POST", "/api/targets", `{"targets":[]}`, "targets"},
		{"POST", "/api/targets", `{"targets":[{"url":""}]}`, "targets[0].url"},
		{"POST", "/api/targets", `{"targets":[{}]}`, "targets[0].url"},
		{"POST", "/api/targets", `{"targets":[{"url":"http://a/","labels":[""]}]}`, "targets[0].labels[0]"},
		{"POST", "/api/targets", `{"targets":[{"url":"http://a/","enabled":true}]}`, "targets[0].enabled"},
		{"POST", "/api/targets", `{"targets":[` + strings.Repeat(`{"url":"http://a/"},`, 10000) + `{"url":"http://a/"}]}`, "targets"},
		{"POST", "/api/targets", `{"orgId":"ac#me","targets":[{"url":"http://a/"}]}`, "orgId"},
		{"GET", "/api/targets?orgId=a%20b", "", "orgId"},
		{"GET", "/api/targets?pageToken=!", "", "pageToken"},
		{"PATCH", "/api/targets/x", `{"enabled":true}`, "targetId"},
		{"PATCH", "/api/targets/0", `{"enabled":true}`, "targetId"},
		{"PATCH", "/api/targets/1", `{}`, "enabled"},
		{"PATCH", "/api/targets/1", `{"enabled":null}`, "enabled"},
		{"PATCH", "/api/targets/1", `{"enabled":"true"}`, "enabled"},
		{"PATCH", "/api/targets/1", `{"enabled":true,"url":"http://b/"}`, "url"},
		{"DELETE", "/api/targets/9223372036854775808", "", "targetId"},
	} {
		var body any
		if tc[2] != "" {
			body = tc[2]
		}
		if said := l.call(t, 400, tc[0], tc[1], mallory, body)["error"].(string); !strings.HasPrefix(said, tc[3]+": ") {
			t.Errorf("%s %s: %q does not begin with %s", tc[0], tc[1], said, tc[3])
		}
	}
	for _, path := range []string{"/api/targets", "/api/targets?orgId=acme"} {
		l.call(t, 404, "GET", path, mallory, nil)
	}
	l.call(t, 404, "POST", "/api/targets", mallory, `{"targets":[{"url":"http://a/"}]}`)
	l.call(t, 404, "POST", "/api/targets", alice, `{"orgId":"other","targets":[{"url":"http://a/"}]}`)
	l.call(t, 404, "POST", "/api/targets", bert, `{"orgId":"acme","targets":[{"url":"http://a/"}]}`)
	l.call(t, 401, "GET", "/api/targets", "", nil)

	got := add(`{"targets":[{"url":" http://a.org/dev\n","labels":["x"]},{"url":"http://b.org/"},{"url":"http://b.org/","labels":["y"]},{"url":"ftp://c.org/"},{"url":"http://"},{"url":" "}]}`)
	refused := got["refused"].([]any)
	if got["added"] != 2.0 || got["known"] != 1.0 || len(refused) != 3 || refused[0].(map[string]any)["url"] != "ftp://c.org/" || refused[0].(map[string]any)["reason"] != "must be an absolute http(s) URL" {
		t.Errorf("added: %v", got)
	}
	if got := add(`{"orgId":"acme","targets":[{"url":"http://a.org/dev"},{"url":"http://c.org/"}]}`); !reflect.DeepEqual(got, map[string]any{"added": 1.0, "known": 1.0, "refused": []any{}}) {
		t.Errorf("added again: %v", got)
	}
	list := l.call(t, 200, "GET", "/api/targets", alice, nil)
	rows := list["targets"].([]any)
	first := rows[0].(map[string]any)
	if len(rows) != 3 || list["nextPageToken"] != nil || len(first) != 5 || first["url"] != "http://a.org/dev" || !reflect.DeepEqual(first["labels"], []any{"x"}) || first["enabled"] != true {
		t.Fatalf("listed: %v", list)
	}
	if at, err := time.Parse(time.RFC3339Nano, first["createdAt"].(string)); err != nil || time.Since(at) > time.Minute {
		t.Errorf("created at %v, %v", first["createdAt"], err)
	}

	// Another organization's are not there, in so many words.
	one := func(row any) string { return fmt.Sprintf("/api/targets/%.0f", row.(map[string]any)["id"]) }
	for _, path := range []string{one(first), "/api/targets/999999"} {
		l.call(t, 404, "PATCH", path, bert, `{"enabled":false}`)
		l.call(t, 404, "DELETE", path, bert, nil)
	}
	changed := l.call(t, 200, "PATCH", one(first), alice, `{"enabled":false}`)
	first["enabled"] = false
	if !reflect.DeepEqual(changed, first) {
		t.Errorf("changed to %v, want %v", changed, first)
	}
	if removed := l.call(t, 200, "DELETE", one(rows[2]), alice, nil); !reflect.DeepEqual(removed, map[string]any{"removed": true}) {
		t.Errorf("removed: %v", removed)
	}
	l.call(t, 404, "DELETE", one(rows[2]), alice, nil)

	// A crawl from targets takes the enabled ones of that organization, and no more
	// pages than those.
	l.call(t, 400, "POST", "/api/crawls", bert, `{"fromTargets":{}}`)
	id := l.call(t, 202, "POST", "/api/crawls", alice, `{"fromTargets":{"limit":5}}`)["crawlId"].(string)
	order := f.next(t)
	if frontier := order["frontier"].([]any); len(frontier) != 1 || frontier[0].(map[string]any)["url"] != "http://b.org/" || order["capture_formats"].(map[string]any)["links"] != false {
		t.Errorf("dispatched %v", order)
	}
	if crawl := l.call(t, 200, "GET", "/api/crawls/"+id, alice, nil); crawl["maxDepth"] != 0.0 || crawl["maxPages"] != 30.0 || !reflect.DeepEqual(crawl["seeds"], []any{"http://b.org/"}) {
		t.Errorf("crawl %v", crawl)
	}
}

// The command line does the same through the gateway.
func TestTargetsByTheCommandLine(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1")
	l.start(t)
	l.grant(t, "alice", "acme")
	for _, step := range []struct{ args, in, want string }{
		{"add --org acme --label x", "# ours\nhttp://a.org/\nhttp://b.org/tv # late\nftp://c.org/\n", "added http://a.org/\nadded http://b.org/tv\nrefused ftp://c.org/: must be an absolute http(s) URL\n2 added, 0 there already, 1 refused\n"},
		{"add", "http://b.org/tv", "there already http://b.org/tv\n0 added, 1 there already, 0 refused\n"},
		{"disable", "http://b.org/tv", "disabled http://b.org/tv\n"},
		{"remove", "http://a.org/\nhttp://nowhere/", "removed http://a.org/\nnot there http://nowhere/\n"},
		{"list", "", "ID  STATE     URL              LABELS\n2   disabled  http://b.org/tv  x\n"},
		{"list --org other", "", ""},
	} {
		cmd := exec.CommandContext(t.Context(), testkit.Binary(t, "muniment"), append([]string{"targets"}, strings.Fields(step.args)...)...)
		cmd.Env = []string{"MUNIMENT_GATEWAY_URL=http://" + l.http, "MUNIMENT_TOKEN=" + l.issuer.Token("alice", "acme")}
		cmd.Dir, cmd.Stdin = t.TempDir(), strings.NewReader(step.in)
		out, err := cmd.Output()
		if string(out) != step.want {
			t.Errorf("targets %s: %q, %v, want %q", step.args, out, err, step.want)
		}
	}
}

func TestTargetsArePaged(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1")
	l.start(t)
	l.grant(t, "alice", "acme")
	alice := l.issuer.Token("alice", "acme")
	var body strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&body, `,{"url":"http://a.org/%d"}`, i)
	}
	if got := l.call(t, 200, "POST", "/api/targets", alice, `{"targets":[`+body.String()[1:]+`]}`); got["added"] != 10_000.0 {
		t.Fatalf("added %v", got["added"])
	}
	seen, query, pages := map[string]bool{}, "", 0
	for ; ; pages++ {
		page := l.call(t, 200, "GET", "/api/targets?orgId=acme"+query, alice, nil)
		for _, row := range page["targets"].([]any) {
			seen[row.(map[string]any)["url"].(string)] = true
		}
		next, more := page["nextPageToken"].(string)
		if !more {
			break
		}
		query = "&pageToken=" + next
	}
	if len(seen) != 10_000 || pages != 49 {
		t.Errorf("%d targets on %d pages", len(seen), pages+1)
	}
}

// An organization's name is bounded once, by what the engine takes.
func TestT25OrganizationNames(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1")
	l.start(t)
	longest := strings.Repeat("x", 243)
	l.grant(t, "alice", longest)
	alice := l.issuer.Token("alice", longest)
	if me := l.call(t, 200, "GET", "/api/me", alice, nil); !reflect.DeepEqual(me["submitTo"], []any{longest}) {
		t.Errorf("me: %v", me)
	}
	l.call(t, 202, "POST", "/api/crawls", alice, `{"seeds":["http://a.org/"],"orgId":"`+longest+`"}`)
	l.call(t, 200, "GET", "/api/crawls?orgId="+longest, alice, nil)
	l.call(t, 200, "POST", "/api/targets", alice, `{"targets":[{"url":"http://a/"}],"orgId":"`+longest+`"}`)
	for _, bad := range []string{longest + "x", "a b", "acme#member", "a:b", "*", "a@b", "a/b", `a\\b`, "..", "", `a\u0000b`, `a\u0007b`, strings.Repeat("é", 122)} {
		for path, body := range map[string]string{"/api/crawls": `{"seeds":["http://a.org/"],"orgId":"%s"}`, "/api/targets": `{"targets":[{"url":"http://a/"}],"orgId":"%s"}`} {
			if said := l.call(t, 400, "POST", path, alice, fmt.Sprintf(body, bad))["error"].(string); !strings.HasPrefix(said, "orgId: ") {
				t.Errorf("%s with %q: %s", path, bad, said)
			}
		}
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// targetsGateway answers as contract.md says of /api/targets, two a page. The
// ledger's own tests say that the real one does.
type targetsGateway struct {
	rows []target
	last int64
}

func (g *targetsGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Query().Get("orgId") == "beta" {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":"not found"}`)
		return
	}
	var id int64
	_, _ = fmt.Sscanf(r.URL.Path, "/api/targets/%d", &id)
	var reply any
	switch r.Method {
	case http.MethodGet:
		reply = g.page(r.URL.Query().Get("pageToken"))
	case http.MethodPost:
		reply = g.add(r)
	case http.MethodPatch:
		var body struct{ Enabled bool }
		_ = json.NewDecoder(r.Body).Decode(&body)
		for i := range g.rows {
			if g.rows[i].ID == id {
				g.rows[i].Enabled = body.Enabled
				reply = g.rows[i]
			}
		}
	case http.MethodDelete:
		kept := g.rows[:0]
		for _, row := range g.rows {
			if row.ID != id {
				kept = append(kept, row)
			}
		}
		g.rows = kept
		reply = map[string]bool{"removed": true}
	}
	_ = json.NewEncoder(w).Encode(reply)
}

func (g *targetsGateway) page(token string) map[string]any {
	from := 0
	_, _ = fmt.Sscan(token, &from)
	to, next := from+2, any(fmt.Sprint(from+2))
	if to >= len(g.rows) {
		to, next = len(g.rows), nil
	}
	return map[string]any{"targets": g.rows[from:to], "nextPageToken": next}
}

func (g *targetsGateway) add(r *http.Request) map[string]any {
	var body struct {
		Targets []struct {
			URL    string
			Labels []string
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	known, refused := map[string]bool{}, []map[string]string{}
	for _, row := range g.rows {
		known[row.URL] = true
	}
	added, there := 0, 0
	for _, t := range body.Targets {
		switch {
		case !strings.HasPrefix(t.URL, "http"):
			refused = append(refused, map[string]string{"url": t.URL, "reason": "must be an absolute http(s) URL"})
		case known[t.URL]:
			there++
		default:
			added++
			g.last++
			g.rows = append(g.rows, target{ID: g.last, URL: t.URL, Labels: t.Labels, Enabled: true})
		}
	}
	return map[string]any{"added": added, "known": there, "refused": refused}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&targetsGateway{})
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "urls")
	if err := os.WriteFile(file, []byte("# the town\nhttp://a/#x\n\n  http://b/   # a comment\nftp://c/\nhttp://b/\n\t# end"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"MUNIMENT_GATEWAY_URL": server.URL, "MUNIMENT_TOKEN": "secret"}
	for _, step := range []struct{ args, in, out, err string }{
		{args: "add " + file + " --label news --label local", out: "added http://a/#x\nadded http://b/\nrefused ftp://c/: must be an absolute http(s) URL\n2 added, 0 there already, 1 refused\n", err: "1 of 3 targets were refused"},
		{args: "add", in: "http://b/\r\nhttp://d/", out: "there already http://b/\nadded http://d/\n1 added, 1 there already, 0 refused\n"},
		{args: "disable -", in: "http://d/\nhttp://nowhere/", out: "disabled http://d/\nnot there http://nowhere/\n", err: "1 of 2 targets are not there"},
		{args: "remove --org acme", in: "http://b/", out: "removed http://b/\n"},
		{args: "list", out: "ID  STATE     URL          LABELS\n1   enabled   http://a/#x  news, local\n3   disabled  http://d/    \n"},
		{args: "enable", in: "http://d/", out: "enabled http://d/\n"},
		{args: "list --org beta", err: "404: not there, or not allowed"},
		{args: "list x", err: `unexpected argument "x"`},
		{args: "enable --label x", err: "--label goes with add"},
		{args: "frob", err: "unknown argument"},
		{args: "", err: "one of add, list"},
		{args: "add /nowhere", err: "/nowhere"},
	} {
		var out bytes.Buffer
		sh := shell{in: strings.NewReader(step.in), out: &out, getenv: func(name string) string { return env[name] }}
		err := run(t.Context(), sh, append([]string{"targets"}, strings.Fields(step.args)...))
		if out.String() != step.out || (err == nil) != (step.err == "") || (err != nil && !strings.Contains(err.Error(), step.err)) {
			t.Errorf("targets %s: %q, %v, want %q and %q", step.args, out.String(), err, step.out, step.err)
		}
	}
	delete(env, "MUNIMENT_TOKEN")
	if err := run(t.Context(), shell{getenv: func(name string) string { return env[name] }}, []string{"targets", "list"}); err == nil || !strings.Contains(err.Error(), "MUNIMENT_TOKEN") {
		t.Errorf("without a token: %v", err)
	}
}

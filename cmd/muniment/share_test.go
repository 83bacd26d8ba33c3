package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
)

// The gateway is ours here and does what the ledger and the relay do with the
// engine, which is real: the command must say what the engine says.
func TestShareAndUnshareSayWhatHoldsNow(t *testing.T) {
	t.Parallel()
	store, issuer := testkit.OpenFGA(t), testkit.Issuer(t)
	engine, err := fga.New(config.OpenFGA{APIURL: store.APIURL, StoreID: store.StoreID, ModelID: store.ModelID}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	archive := uuid.NewString()
	granted := time.Now()
	delivers, shared := true, false
	var tokens []string
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		tuple := fga.ShareTuple(archive, "dave", granted, time.Hour)
		switch r.Method + " " + r.URL.Path {
		case "POST /api/archives/" + archive + "/shares":
			var body struct {
				Subject string
				Seconds int64
			}
			if json.NewDecoder(r.Body).Decode(&body) != nil || body.Subject != "dave" || body.Seconds != 3600 {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			if delivers {
				_ = engine.Write(r.Context(), []fga.Tuple{tuple}, nil)
			}
			shared = true
			fmt.Fprintf(w, `{"subject":"dave","until":%q,"delivered":%v}`, granted.Add(time.Hour).UTC().Format(time.RFC3339), delivers)
		case "DELETE /api/archives/" + archive + "/shares/dave":
			_ = engine.Write(r.Context(), nil, []fga.Key{tuple.Key()})
			fmt.Fprintf(w, `{"removed":%v,"delivered":true}`, shared)
			shared = false
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(gateway.Close)
	muniment := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), shell{out: &out, getenv: func(name string) string {
			return map[string]string{
				"OPENFGA_API_URL": store.APIURL, "OPENFGA_STORE_ID": store.StoreID, "OPENFGA_MODEL_ID": store.ModelID,
				"MUNIMENT_GATEWAY_URL": gateway.URL, "MUNIMENT_ISSUER_URL": issuer.URL, "MUNIMENT_TOKEN": "mine",
			}[name]
		}}, args)
		return out.String(), err
	}
	tuple := "user:dave viewer archive:" + archive
	until := granted.Add(time.Hour).UTC().Format(time.RFC3339)
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"share", archive, "dave", "--for", "1h"}, "wrote: " + tuple + " until " + until + "\nnow: dave may view archive:" + archive},
		{[]string{"unshare", archive, "dave"}, "removed: " + tuple + "\nnow: dave may not view archive:" + archive},
		{[]string{"unshare", "--subject", "alice", "--org", "acme", archive, "dave"}, "nothing to do for: " + tuple + "\nnow: dave may not view"},
	} {
		out, err := muniment(step.args...)
		if err != nil || !strings.HasPrefix(out, step.want) {
			t.Errorf("%v says %q, %v; want %q", step.args, out, err, step.want)
		}
	}
	if tokens[0] != "mine" || strings.Count(tokens[2], ".") != 2 {
		t.Errorf("the tokens were %q", tokens)
	}
	delivers = false
	if out, err := muniment("share", archive, "dave", "--for=1h"); err != nil || !strings.Contains(out, "\nqueued: ") || !strings.Contains(out, "may not view") {
		t.Errorf("undelivered: %q, %v", out, err)
	}
	for want, args := range map[string][]string{
		"--for is required":        {"share", archive, "dave"},
		"whole seconds":            {"share", archive, "dave", "--for", "1500ms"},
		"two arguments are needed": {"share", "x", "dave", "--for", "1h"},
		"the user must not":        {"share", archive, "a:b", "--for", "1h"},
		"neither its owner nor":    {"unshare", uuid.NewString(), "dave"},
		"--for goes with share":    {"unshare", archive, "dave", "--for", "1h"},
		"the gateway says 400":     {"share", archive, "dave", "--for", "2h"},
	} {
		if _, err := muniment(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error with %q", args, err, want)
		}
	}
}

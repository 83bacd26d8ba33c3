package main

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/fga"
)

// shelve puts an archive into the ledger by hand, visible to members of acme.
func (l *ledger) shelve(t *testing.T, sourceURL string, labels []string, complete *bool, capturedAt time.Time) uuid.UUID {
	t.Helper()
	id, task := uuid.New(), uuid.New()
	_, err := l.db.Pool(t, "superuser").Exec(t.Context(), `INSERT INTO ledger.archives (id, task_id, bucket, object_key, source_url, labels, wacz_complete, captured_at, object_etag, object_size)
		VALUES ($1, $2, 'b', $3, $4, $5, $6, $7, 'etag', 1)`, id, task, id.String(), sourceURL, labels, complete, capturedAt)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.engine.Write(t.Context(), fga.CaptureTuples(id.String(), task.String(), "acme", "alice"), nil); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestListingFiltersOverTheGateway(t *testing.T) {
	t.Parallel()
	f := newFlow(t, func(w http.ResponseWriter) { fmt.Fprint(w, uuid.NewString()) })
	l := newLedger(t, "WEBHOOK_URL="+f.URL, "SINK_ORIGIN=http://127.0.0.1:1")
	l.start(t)
	l.grant(t, "alice", "acme")
	alice, mallory := l.issuer.Token("alice", "acme"), l.issuer.Token("mallory", "beta")
	yes, no := true, false
	at := time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)
	const hour = time.Hour
	names := map[string]string{}
	shelve := func(name, sourceURL string, complete *bool, capturedAt time.Time, labels ...string) {
		names[l.shelve(t, sourceURL, append([]string{}, labels...), complete, capturedAt).String()] = name
	}
	shelve("new", "http://a.org/news?x=1&y=2", &yes, at.Add(2*hour), "daily", "a,b")
	shelve("mid", "http://a.org/news?x=1&y=2", &no, at, "daily")
	shelve("old", "http://a.org/news?x=1&y=2", nil, at.Add(-hour))
	shelve("sub", "https://A.org:8443/news?x=1&y=2&z", nil, at.Add(-3*hour), "a")
	shelve("far", "http://b.org/100%25", &yes, at.Add(-4*hour))
	id := l.call(t, 202, "POST", "/api/crawls", alice, `{"seeds":["http://c.org/"]}`)["crawlId"].(string)
	f.next(t)
	var task string
	if err := l.db.Pool(t, "superuser").QueryRow(t.Context(), `INSERT INTO ledger.capture_submissions (task_id, org_id, crawl_id)
		SELECT task_id, 'acme', $1 FROM ledger.archives WHERE source_url = 'http://b.org/100%25' RETURNING task_id`, id).Scan(&task); err != nil {
		t.Fatal(err)
	}

	page := url.QueryEscape("http://a.org/news?x=1&y=2")
	for query, want := range map[string]string{
		"":                               "new mid old sub far",
		"url=" + page:                    "new mid old",
		"url=" + page + "*":              "new mid old",
		"url=http://a.org/news":          "",
		"url=http://a.org/*":             "new mid old",
		"url=http*":                      "new mid old sub far",
		"url=*":                          "new mid old sub far",
		"url=http://b.org/100%2525":      "far",
		"url=http://b.org/100_25*":       "",
		"host=a.org":                     "new mid old sub",
		"host=A.ORG":                     "new mid old sub",
		"host=org":                       "",
		"label=daily":                    "new mid",
		"label=a,b":                      "new",
		"label=a":                        "sub",
		"label=Daily":                    "",
		"from=2026-11-30T12:00:00Z":      "new mid",
		"complete=true":                  "new far",
		"complete=false":                 "mid",
		"complete=null":                  "old sub",
		"crawlId=" + id:                  "far",
		"crawlId=" + strings.ToUpper(id): "far",
		"crawlId=" + uuid.NewString():    "",
		"url=" + page + "&complete=true&host=a.org&label=daily":                                "new",
		"from=2026-11-30T12:00:00.123456Z&to=2026-11-30T12:00:00.123456Z":                      "mid",
		"to=2026-11-30T13:00:00.123456%2B01:00":                                                "mid old sub far",
		"before=2026-11-30T12:00:00.123456Z":                                                   "old sub far",
		"before=2026-11-30T12:00:00.123456789Z":                                                "mid old sub far",
		"before=2026-11-30T12:00:00.123456Z&to=2026-12-30T12:00:00Z&from=2026-11-30T09:00:00Z": "old sub",
		"url=" + page + "&at=2026-11-30T13:00:00.123456Z":                                      "mid new old",
		"url=" + page + "&at=2026-11-30T13:00:00.123457Z":                                      "new mid old",
		"url=" + page + "&at=2026-11-30T11:30:00.123456Z":                                      "old mid new",
		"url=" + page + "&at=1970-01-01T00:00:00Z":                                             "old mid new",
		"url=" + page + "&at=9999-12-31T23:59:59Z":                                             "new mid old",
		"url=" + page + "&at=2026-11-30T13:00:00Z&before=2026-11-30T13:00:00Z":                 "mid old",
		"url=http*&at=2026-11-30T09:30:00.123456Z":                                             "sub far old mid new",
		"unknown=1&url=" + page:                                                                "new mid old",
	} {
		// One at a time, so that each place between two rows is one between pages.
		for _, size := range []string{"200", "1"} {
			var found []string
			for token := ""; ; {
				reply := l.call(t, 200, "GET", "/api/archives?pageSize="+size+token+"&"+query, alice, nil)
				for _, row := range reply["archives"].([]any) {
					found = append(found, names[row.(map[string]any)["id"].(string)])
				}
				next, more := reply["nextPageToken"].(string)
				if !more {
					break
				}
				token = "&pageToken=" + next
			}
			if strings.Join(found, " ") != want {
				t.Errorf("%s, pages of %s: %v, want %s", query, size, found, want)
			}
		}
		if seen := l.call(t, 200, "GET", "/api/archives?"+query, mallory, nil)["archives"].([]any); len(seen) != 0 {
			t.Errorf("%s: mallory sees %v", query, seen)
		}
	}
	for query, field := range map[string]string{
		"url=": "url", "host=": "host", "label=": "label", "complete=yes": "complete", "complete=": "complete", "crawlId=x": "crawlId",
		"from=yesterday": "from", "to=2026-11-30": "to", "at=2026-11-30T12:00:00Z": "at", "url=http://a/&at=x": "at",
		"complete=true&complete=false": "complete",
	} {
		if said := l.call(t, 400, "GET", "/api/archives?"+query, alice, nil)["error"].(string); !strings.HasPrefix(said, field+": ") && !strings.HasPrefix(said, field+" ") && !strings.Contains(said, ": "+field+" ") {
			t.Errorf("%s: %q does not name %s", query, said, field)
		}
	}

	// The nearest carries its distance; without a moment there is none.
	rows := l.call(t, 200, "GET", "/api/archives?url="+page+"&at=2026-11-30T12:00:01.623456Z", alice, nil)["archives"].([]any)
	if got := rows[0].(map[string]any)["distanceSeconds"]; got != 1.5 {
		t.Errorf("distance %v", got)
	}
	row := l.call(t, 200, "GET", "/api/archives?label=a,b", alice, nil)["archives"].([]any)[0].(map[string]any)
	if got := slices.Sorted(maps.Keys(row)); !reflect.DeepEqual(got, []string{"capturedAt", "distanceSeconds", "fixity", "id", "labels", "objectKey", "signed", "sourceUrl", "taskId", "waczComplete"}) || row["distanceSeconds"] != nil {
		t.Errorf("%v", row)
	}
}

func TestProofOfAnArchive(t *testing.T) {
	t.Parallel()
	l := newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1")
	l.start(t)
	id := l.shelve(t, "http://a/", []string{}, nil, time.Now())
	path := "/api/archives/" + id.String() + "/proof"
	alice, mallory := l.issuer.Token("alice", "acme"), l.issuer.Token("mallory", "beta")
	unsealed := map[string]any{"state": "not_sealed"}
	if got := l.call(t, 200, "GET", path, alice, nil); !reflect.DeepEqual(got, map[string]any{"hash": nil, "sealed": unsealed}) {
		t.Errorf("%v", got)
	}
	hash := strings.Repeat("0f", 32)
	raw, err := hex.DecodeString(hash)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.db.Pool(t, "superuser").Exec(t.Context(), "UPDATE ledger.archives SET sha256 = $1", raw); err != nil {
		t.Fatal(err)
	}
	if got := l.call(t, 200, "GET", path, alice, nil); !reflect.DeepEqual(got, map[string]any{"hash": hash, "sealed": unsealed}) {
		t.Errorf("%v", got)
	}
	l.call(t, 404, "GET", path, mallory, nil)
	l.call(t, 404, "GET", "/api/archives/"+uuid.NewString()+"/proof", alice, nil)
	l.call(t, 400, "GET", "/api/archives/x/proof", alice, nil)
	l.call(t, 401, "GET", path, "", nil)
	l.call(t, 405, "POST", path, alice, `{}`)
}

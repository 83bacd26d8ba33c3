package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/feedclient"
	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/testkit"
)

// gateway is the real ledger in front of an archiver.
type gateway struct {
	url    string
	output *output
}

// gatewayOf runs a ledger; settings choose its identity mode.
func (a *archivers) gatewayOf(t *testing.T, archiver *replica, settings ...string) *gateway {
	t.Helper()
	files, s3, store := a.certs.Files("ledger"), testkit.Bucket(t), testkit.OpenFGA(t)
	dir := t.TempDir()
	secret := func(name, value string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	listen := testkit.FreeAddress(t)
	g := &gateway{url: "http://" + listen, output: &output{}}
	process := exec.Command(testkit.Binary(t, "muniment-ledger"))
	process.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, setting := range append([]string{
		"GRPC_ADDRESS=" + testkit.FreeAddress(t), "HTTP_ADDRESS=" + listen, "DEBUG_ADDRESS=127.0.0.1:0", "DRAIN_DELAY=50ms",
		"TLS_CERT_FILE=" + files.Cert, "TLS_KEY_FILE=" + files.Key, "TLS_CA_FILE=" + files.CA,
		"DATABASE_URL=" + a.db.URL("ledger"), "FEED_ADDRESS=" + archiver.address,
		"S3_ENDPOINT=" + s3.Endpoint, "S3_REGION=" + s3.Region, "S3_BUCKET=" + s3.Bucket,
		"S3_ACCESS_KEY_FILE=" + secret("access", s3.AccessKey), "S3_SECRET_KEY_FILE=" + secret("secret", s3.SecretKey),
		"OPENFGA_API_URL=" + store.APIURL, "OPENFGA_STORE_ID=" + store.StoreID, "OPENFGA_MODEL_ID=" + store.ModelID,
	}, settings...) {
		process.Env = append(process.Env, "MUNIMENT_LEDGER_"+setting)
	}
	process.Stdout, process.Stderr = g.output, g.output
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		reply, err := g.get("GET", "/api/v1/archive/continuity?month=2020-01")
		return err == nil && reply.status == 200, g.output.String() + archiver.output.String()
	})
	return g
}

// reply is an answer of the gateway.
type reply struct {
	status int
	header http.Header
	body   string
}

func (g *gateway) get(method, path string, header ...string) (reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, g.url+path, nil)
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body)}, err
}

// must wants a status and returns the answer.
func (g *gateway) must(t *testing.T, status int, path string, header ...string) reply {
	t.Helper()
	r, err := g.get("GET", path, header...)
	if err != nil || r.status != status {
		t.Fatalf("GET %s: %d %s %v, want %d\n%s", path, r.status, r.body, err, status, g.output.String())
	}
	return r
}

// object wants a 200 with one JSON object of exactly these keys, in this order.
func (g *gateway) object(t *testing.T, path, keys string) map[string]any {
	t.Helper()
	r := g.must(t, 200, path)
	var object map[string]any
	if err := json.Unmarshal([]byte(r.body), &object); err != nil || r.header.Get("Content-Type") != "application/json" {
		t.Fatalf("GET %s: %s as %s", path, r.body, r.header.Get("Content-Type"))
	}
	if got := keysOf(t, r.body); got != keys {
		t.Errorf("GET %s: the keys are %q, want %q", path, got, keys)
	}
	return object
}

// keysOf returns the keys of a JSON object as they stand in it.
func keysOf(t *testing.T, object string) string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(object))
	var names []string
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprint(name))
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(names, " ")
}

// list returns a member that is a list of objects.
func list(object map[string]any, name string) []map[string]any {
	values, _ := object[name].([]any)
	all := make([]map[string]any, 0, len(values))
	for _, v := range values {
		member, _ := v.(map[string]any)
		all = append(all, member)
	}
	return all
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

const (
	productKeys = "hash source request productId itemKey issuedAt receivedAt byteLength encoding body also sealed"
	versionKeys = "hash source request productId itemKey issuedAt receivedAt byteLength encoding"
	pageKeys    = " nextPageToken"
	zip         = "PK\x03\x04\x00\xff"
)

// What everybody may ask, from the outside: the real ledger in front of the real
// archiver, into which a pusher hands three reads.
func TestPublicReadsOverHTTP(t *testing.T) {
	t.Parallel()
	a := newArchivers(t)
	archiver := a.start(t, "quiet", "SOURCES=nhc_surge", "PUSHERS=reconciler=nws_alerts")
	between := a.push(t, archiver)
	large := a.large(t)
	issuer := testkit.Issuer(t)
	for mode, settings := range map[string][]string{
		"deny":       nil,
		"dev header": {"DEV_HEADERS=true"},
		"jwt":        {"ISSUER_URL=" + issuer.URL},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := a.gatewayOf(t, archiver, settings...)
			// Nobody has to be anybody, and who is nobody else's business.
			for _, header := range [][]string{nil, {"Authorization", "Bearer nonsense"}, {"X-Muniment-Subject", "a b"}} {
				g.must(t, 200, "/api/v1/archive/products/"+hashOf(`{"v":1}`), header...)
			}
			if r := g.must(t, 401, "/api/archives"); r.body != `{"error":"unauthenticated"}` {
				t.Errorf("what is not public: %s", r.body)
			}
			publicProducts(t, g)
			publicBodies(t, g)
			publicHistory(t, g, between)
			publicRefusals(t, g)
			for _, of := range []string{"", "/body"} {
				if r := g.must(t, 413, "/api/v1/archive/products/"+large+of); !strings.HasPrefix(r.body, `{"error":"the product's body is over the limit of `) {
					t.Errorf("a body that no reply carries: %s", r.body)
				}
			}
		})
	}
}

// push hands in three reads by the client package and returns a moment between
// the first two.
func (a *archivers) push(t *testing.T, archiver *replica) time.Time {
	t.Helper()
	conn, err := grpcx.Dial(archiver.address, "feed-archiver", a.certs.Files("reconciler"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	client := feedclient.New(conn, feedclient.Settings{InTests: true, Bound: 20 * time.Second}, prometheus.NewRegistry(), zap.NewNop())
	issued := time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)
	began := time.Now()
	read := func(fetched time.Time, version int) {
		client.Record(t.Context(), feedclient.Read{
			Source: "nws_alerts", Request: "mine", FetchedAt: fetched, HTTPStatus: 200, Date: "Mon, 30 Nov 2026 12:00:00 GMT",
			Items: []feedclient.Item{
				{ProductID: "urn:a", Kind: feedclient.JSON, Body: fmt.Appendf(nil, `{ "v" : %d.0 }`, version), IssuedAt: &issued},
				{ProductID: "urn:b/ü", ItemKey: "k", Kind: feedclient.JSON, Body: []byte(`{"v":1}`)},
				{ProductID: "zip", Kind: feedclient.Binary, Body: []byte(zip)},
			},
		})
	}
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		// The first call reaches a server that may not be there yet.
		if n := a.count(t, "as_issued_polls"); n == 0 {
			read(began.Add(-4*time.Second), 1)
			return false, archiver.output.String()
		}
		return true, ""
	})
	read(began.Add(-2*time.Second), 2)
	client.Record(t.Context(), feedclient.Read{Source: "nws_alerts", Request: "other", FetchedAt: time.Now(), HTTPStatus: 304, NotModified: true})
	if n := a.count(t, "as_issued_polls"); n != 3 {
		t.Fatalf("%d polls, want 3\n%s", n, archiver.output.String())
	}
	return began.Add(-3 * time.Second)
}

// large puts a body there that is more than a reply carries, and returns its hash.
func (a *archivers) large(t *testing.T) string {
	t.Helper()
	text := strings.Repeat("a", grpcx.MaxMessageBytes)
	if _, err := a.superuser.Exec(t.Context(), `INSERT INTO feed.as_issued_products (source, request, product_id, content_hash, byte_length, encoding, content_text)
		VALUES ('nws_alerts', 'mine', 'large', $1, octet_length($2), 'text', $2)`, hashOf(text), text); err != nil {
		t.Fatal(err)
	}
	return hashOf(text)
}

func publicProducts(t *testing.T, g *gateway) {
	hash := hashOf(`{"v":1}`)
	first := g.object(t, "/api/v1/archive/products/"+hash, productKeys)
	for name, want := range map[string]any{
		"hash": hash, "source": "nws_alerts", "request": "mine", "productId": "urn:a", "itemKey": nil,
		"issuedAt": "2026-11-30T12:00:00.123456Z", "byteLength": 7.0, "encoding": "json", "body": `{"v":1}`,
	} {
		if first[name] != want {
			t.Errorf("the product's %s is %v, want %v", name, first[name], want)
		}
	}
	also := list(first, "also")
	if len(also) != 1 || also[0]["productId"] != "urn:b/ü" || also[0]["itemKey"] != "k" || also[0]["issuedAt"] != nil {
		t.Errorf("also: %v", also)
	}
	if sealed := fmt.Sprint(first["sealed"]); sealed != "map[state:not_sealed]" {
		t.Errorf("sealed: %s", sealed)
	}
	if r := g.must(t, 200, "/api/v1/archive/products/"+hash); r.header.Get("Cache-Control") != "public, max-age=60" {
		t.Errorf("a product is cached as %q", r.header.Get("Cache-Control"))
	}

	// Versions, oldest first, without bodies, a page at a time.
	path := "/api/v1/archive/products?source=nws_alerts&productId=urn:a&pageSize=1"
	for i, want := range []string{`{"v":1}`, `{"v":2}`} {
		page := g.object(t, path, "products"+pageKeys)
		versions := list(page, "products")
		if len(versions) != 1 || versions[0]["hash"] != hashOf(want) || len(versions[0]) != len(strings.Fields(versionKeys)) {
			t.Fatalf("page %d: %v", i, page)
		}
		if i == 0 {
			path += "&pageToken=" + fmt.Sprint(page["nextPageToken"])
		} else if page["nextPageToken"] != nil {
			t.Errorf("the last page leads on: %v", page)
		}
	}
	if page := g.object(t, "/api/v1/archive/products?source=nws_alerts&productId=urn:b%2F%C3%BC", "products"+pageKeys); len(list(page, "products")) != 1 {
		t.Errorf("a product id with a slash and an umlaut: %v", page)
	}
	if page := g.must(t, 200, "/api/v1/archive/products?source=never&productId=x"); page.body != `{"products":[],"nextPageToken":null}` {
		t.Errorf("versions of nothing: %s", page.body)
	}
}

func publicBodies(t *testing.T, g *gateway) {
	text := base64.StdEncoding.EncodeToString([]byte(zip))
	for _, c := range []struct{ hash, query, body, contentType string }{
		{hashOf(`{"v":1}`), "", `{"v":1}`, "application/json"},
		{hashOf(`{"v":1}`), "?decode=1", `{"v":1}`, "application/json"},
		{hashOf(text), "", text, "text/plain; charset=utf-8"},
		{hashOf(text), "?decode=0", text, "text/plain; charset=utf-8"},
		{hashOf(text), "?decode=1", zip, "application/octet-stream"},
	} {
		path := "/api/v1/archive/products/" + c.hash + "/body" + c.query
		r := g.must(t, 200, path)
		tag := `"` + c.hash + `"`
		if r.body != c.body || r.header.Get("Content-Type") != c.contentType || r.header.Get("ETag") != tag ||
			r.header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("%s: %q %v", path, r.body, r.header)
		}
		// Whoever holds the text can check it by itself.
		if c.body != zip && hashOf(r.body) != c.hash {
			t.Errorf("%s: the hash of the body is another", path)
		}
		if r := g.must(t, 304, path, "If-None-Match", tag); r.body != "" || r.header.Get("ETag") != tag {
			t.Errorf("%s, known already: %q %v", path, r.body, r.header)
		}
		head, err := g.get("HEAD", path)
		if err != nil || head.status != 200 || head.body != "" || head.header.Get("Content-Length") != fmt.Sprint(len(c.body)) {
			t.Errorf("HEAD %s: %+v, %v", path, head, err)
		}
	}
}

func publicHistory(t *testing.T, g *gateway, between time.Time) {
	at := between.UTC().Format(time.RFC3339Nano)
	now := time.Now().UTC().Format(time.RFC3339Nano)

	held := g.object(t, "/api/v1/archive/as-of?source=nws_alerts&at="+at, "source at reads")
	reads := list(held, "reads")
	if len(reads) != 1 || reads[0]["request"] != "mine" || len(list(reads[0], "items")) != 3 || list(reads[0], "items")[0]["hash"] != hashOf(`{"v":1}`) {
		t.Errorf("as of the moment between: %v", held)
	}
	held = g.object(t, "/api/v1/archive/as-of?source=nws_alerts&at="+now, "source at reads")
	if reads = list(held, "reads"); len(reads) != 2 || list(reads[0], "items")[0]["hash"] != hashOf(`{"v":2}`) || list(reads[0], "items")[1]["itemKey"] != "k" {
		t.Fatalf("as of now: %v", held)
	}
	// A 304 before any body says that it held nothing that we know of.
	poll, _ := reads[1]["poll"].(map[string]any)
	if _, there := poll["itemsSeen"]; !there || poll["itemsSeen"] != nil || poll["itemsNew"] != 0.0 || poll["httpStatus"] != 304.0 || len(poll) != 5 || len(list(reads[1], "items")) != 0 {
		t.Errorf("the poll of a 304: %v", reads[1])
	}
	held = g.object(t, "/api/v1/archive/as-of?source=nws_alerts&request=other&at="+now, "source at reads")
	if reads = list(held, "reads"); len(reads) != 1 || reads[0]["request"] != "other" {
		t.Errorf("as of now, one request: %v", held)
	}
	if r := g.must(t, 200, "/api/v1/archive/as-of?source=nws_alerts&at=2020-01-01T01:00:00%2B01:00"); r.body != `{"source":"nws_alerts","at":"2020-01-01T00:00:00Z","reads":[]}` {
		t.Errorf("before anything: %s", r.body)
	}

	diff := g.object(t, "/api/v1/archive/diff?source=nws_alerts&from="+at+"&to="+now, "appeared disappeared")
	appeared, disappeared := list(diff, "appeared"), list(diff, "disappeared")
	if len(appeared) != 1 || appeared[0]["hash"] != hashOf(`{"v":2}`) || len(disappeared) != 1 || disappeared[0]["hash"] != hashOf(`{"v":1}`) || disappeared[0]["productId"] != "urn:a" {
		t.Errorf("diff: %v", diff)
	}

	day := between.UTC().Format(time.DateOnly)
	polls := g.object(t, "/api/v1/archive/polls?source=nws_alerts&day="+day+"&pageSize=2", "polls"+pageKeys)
	if page := list(polls, "polls"); len(page) != 2 || page[0]["itemsNew"] != 3.0 || page[1]["itemsNew"] != 1.0 || page[0]["date"] == nil || page[0]["age"] != nil {
		t.Errorf("the day's polls: %v", polls)
	}
	polls = g.object(t, "/api/v1/archive/polls?source=nws_alerts&day="+day+"&pageToken="+fmt.Sprint(polls["nextPageToken"]), "polls"+pageKeys)
	if page := list(polls, "polls"); len(page) != 1 || page[0]["itemsSeen"] != nil || page[0]["httpStatus"] != 304.0 || polls["nextPageToken"] != nil {
		t.Errorf("the day's last poll: %v", polls)
	}

	continuity := g.object(t, "/api/v1/archive/continuity?month="+day[:7], "month sources")
	sources := list(continuity, "sources")
	if len(sources) != 1 || sources[0]["source"] != "nws_alerts" || sources[0]["status"] != "single_read" || sources[0]["reads"] != 1.0 ||
		sources[0]["usualIntervalSeconds"] != nil || sources[0]["longestIntervalStartedAt"] != nil || len(list(sources[0], "gaps")) != 0 || len(sources[0]) != 9 {
		t.Errorf("continuity: %v", continuity)
	}
}

func publicRefusals(t *testing.T, g *gateway) {
	const archive = "/api/v1/archive/"
	nothing := hashOf("nothing")
	for path, names := range map[string]string{
		"products/" + strings.ToUpper(nothing):                            "hash",
		"products/ab":                                                     "hash",
		"products/" + nothing + "x/body":                                  "hash",
		"products/" + nothing + "/body?decode=yes":                        "decode",
		"products?source=nws_alerts":                                      "productId",
		"products?source=&productId=a":                                    "source",
		"products?productId=a":                                            "source",
		"products?source=a&productId=b&pageSize=0":                        "pageSize",
		"products?source=a&productId=b&pageToken=!":                       "pageToken",
		"polls?source=a":                                                  "day",
		"polls?source=a&day=2026-02-30":                                   "day",
		"polls?source=a&day=26-02-03":                                     "day",
		"as-of?source=a":                                                  "at",
		"as-of?source=a&at=yesterday":                                     "at",
		"as-of?source=a&at=2026-11-30T00:00:00Z&request=":                 "request",
		"diff?source=a&from=2026-11-30T00:00:00Z":                         "to",
		"diff?source=a&from=2026-11-30T00:00:00Z&to=2026-11-29T00:00:00Z": "to",
		"continuity":               "month",
		"continuity?month=2026-13": "month",
		"continuity?month=2026":    "month",
	} {
		r := g.must(t, 400, archive+path)
		if !strings.HasPrefix(r.body, `{"error":"`+names+": ") {
			t.Errorf("%s: %s; want the name of %s", path, r.body, names)
		}
	}
	for _, path := range []string{"products/" + nothing, "products/" + nothing + "/body", "products/" + nothing + "/body?decode=1", "seals/2026-11-30", "", "unknown"} {
		if r := g.must(t, 404, archive+path, "If-None-Match", `"`+nothing+`"`); r.body != `{"error":"not found"}` || r.header.Get("ETag") != "" {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	for _, path := range []string{"products/" + nothing, "polls", "as-of"} {
		if r, err := g.get("POST", archive+path); err != nil || r.status != 405 || r.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %+v, %v", path, r, err)
		}
	}
}

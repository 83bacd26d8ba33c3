package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/sink"
)

// sunk is a ledger with one running crawl that has a sink, as a browser is told
// of it.
type sunk struct {
	*ledger
	crawl, token, prefix string
}

func newSunk(t *testing.T, change func(*ledger)) *sunk {
	t.Helper()
	f := newFlow(t, func(w http.ResponseWriter) { fmt.Fprint(w, uuid.NewString()) })
	l := newLedger(t, "WEBHOOK_URL="+f.URL, "SINK_ORIGIN=http://127.0.0.1:1")
	change(l)
	l.start(t)
	l.grant(t, "alice", "acme")
	s := &sunk{ledger: l, prefix: "org/acme/" + time.Now().UTC().Format("2006-01") + "/"}
	s.crawl = l.call(t, 202, "POST", "/api/crawls", l.issuer.Token("alice", "acme"), `{"seeds":["http://a.org/"]}`)["crawlId"].(string)
	told := f.next(t)["artifact_sink"].(map[string]any)
	s.token = told["token"].(string)
	if told["url"] != "http://127.0.0.1:1/api/sink/"+s.crawl || len(told) != 2 {
		t.Fatalf("the webhook was told of %v", told)
	}
	return s
}

// upload puts a body under an escaped name.
func (s *sunk) upload(t *testing.T, crawl, token, name string, body io.Reader) (int, map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+s.http+"/api/sink/"+crawl+"/"+name, body)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var reply map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, reply
}

// A browser needs no more than what the webhook's body told it: what it puts is
// where the level report looks for it, and no report is needed to know of it.
func TestSinkToArchive(t *testing.T) {
	t.Parallel()
	s := newSunk(t, func(*ledger) {})
	registry := ledgerv1.NewRegistryServiceClient(s.dial(t, "reconciler"))
	alice := s.issuer.Token("alice", "acme")
	var manifests []string
	tasks := []uuid.UUID{uuid.New(), uuid.New()}
	for _, task := range tasks {
		wacz := "urn%3Aoid%3A" + task.String() + ".wacz"
		status, reply := s.upload(t, s.crawl, s.token, wacz, strings.NewReader("PK"))
		location := "s3://" + s.s3.Bucket + "/" + s.prefix + "urn:oid:" + task.String() + ".wacz"
		if status != 200 || !reflect.DeepEqual(reply, map[string]any{"location": location}) {
			t.Fatalf("%d %v, want %s", status, reply, location)
		}
		manifest := `{"taskId":"` + task.String() + `","correlationId":"c-7","url":"http://a.org/","status":"success","timestamp":"2026-11-30T12:00:00Z","captureProcessingTimeMs":1,"artifacts":{"wacz":"` + location + `"}}`
		manifests = append(manifests, manifest)
		if status, reply := s.upload(t, s.crawl, s.token, task.String()+".result.json", strings.NewReader(manifest)); status != 200 {
			t.Fatalf("%d %v", status, reply)
		}
	}
	// A submission each at once, of the crawl's organization and requester, and no
	// archive before somebody looks.
	for sql, want := range map[string]int{
		`SELECT count(*) FROM ledger.capture_submissions WHERE org_id = 'acme' AND submitted_by = 'alice' AND correlation_id = 'c-7'
			AND manifest_key = '` + s.prefix + `' || task_id || '.result.json' AND crawl_id = '` + s.crawl + `'`: 2,
		"SELECT count(*) FROM ledger.capture_holes": 2,
		"SELECT count(*) FROM ledger.archives":      0,
	} {
		if got := s.count(t, sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
	// One is admitted by the reconciler, the other by the level report.
	holes, err := registry.ListHoles(t.Context(), &ledgerv1.ListHolesRequest{PageSize: 10})
	if err != nil || len(holes.GetHoles()) != 2 || !strings.HasPrefix(holes.GetHoles()[0].GetManifestKey(), s.prefix) {
		t.Fatalf("%v, %v", holes, err)
	}
	admitted, err := registry.AdmitManifest(t.Context(), &ledgerv1.AdmitManifestRequest{TaskId: tasks[0].String(), Manifest: []byte(manifests[0])})
	if err != nil || admitted.GetOutcome() != ledgerv1.AdmitOutcome_ADMIT_OUTCOME_ADMITTED {
		t.Fatalf("%v, %v", admitted, err)
	}
	s.call(t, 200, "POST", "/api/crawls/"+s.crawl+"/pages", alice, fmt.Sprintf(`{"depth":0,"results":[{"url":"http://a.org/","status":"captured","taskId":%q,"manifestLocation":"s3://%s/%s%s.result.json"}]}`,
		tasks[1], s.s3.Bucket, s.prefix, tasks[1]))
	if n := s.count(t, "SELECT count(*) FROM ledger.archives a JOIN outbox.fga_outbox o ON o.payload->'writes'->0->>'object' = 'archive:' || a.id"); n != 2 {
		t.Fatalf("%d archives with their tuples", n)
	}
	// Their names are taken for good; a manifest's is not.
	for _, task := range tasks {
		status, reply := s.upload(t, s.crawl, s.token, "urn:oid:"+task.String()+".wacz", strings.NewReader("PK again"))
		if status != 409 || reply["error"] == "" || len(reply) != 1 {
			t.Errorf("%d %v", status, reply)
		}
	}
	if status, _ := s.upload(t, s.crawl, s.token, tasks[0].String()+".result.json", strings.NewReader(manifests[0])); status != 200 {
		t.Errorf("a manifest put twice: %d", status)
	}
}

func TestSinkRefusals(t *testing.T) {
	t.Parallel()
	s := newSunk(t, func(*ledger) {})
	crawl, tokens := uuid.MustParse(s.crawl), sink.NewTokens([]byte(strings.Repeat("k", 32)))
	unknown := uuid.New()
	later := time.Now().Add(time.Hour)
	bad := map[string]any{"error": "invalid or expired sink token"}
	for name, tc := range map[string]struct {
		crawl, token, file, body string
		status                   int
		reply                    map[string]any
	}{
		"no token":                {s.crawl, "", "a", "x", 401, bad},
		"nonsense":                {s.crawl, "x", "a", "x", 401, bad},
		"a caller's token":        {s.crawl, s.issuer.Token("alice", "acme"), "a", "x", 401, bad},
		"another crawl's token":   {s.crawl, tokens.Issue(unknown, later), "a", "x", 401, bad},
		"expired":                 {s.crawl, tokens.Issue(crawl, time.Now()), "a", "x", 401, bad},
		"another secret":          {s.crawl, sink.NewTokens([]byte(strings.Repeat("l", 32))).Issue(crawl, later), "a", "x", 401, bad},
		"a longer life":           {s.crawl, "9" + s.token, "a", "x", 401, bad},
		"no id":                   {"x", s.token, "a", "x", 401, bad},
		"unknown crawl":           {unknown.String(), tokens.Issue(unknown, later), "a", "x", 404, map[string]any{"error": "not found"}},
		"empty body":              {s.crawl, s.token, "a", "", 400, nil},
		"T04 encoded slash":       {s.crawl, s.token, "x%2Fy.wacz", "x", 400, nil},
		"backslash":               {s.crawl, s.token, "x%5Cy", "x", 400, nil},
		"NUL":                     {s.crawl, s.token, "x%00", "x", 400, nil},
		"dots":                    {s.crawl, s.token, "a..b", "x", 400, nil},
		"encoded dots":            {s.crawl, s.token, "%2e%2e", "x", 400, nil},
		"256 bytes":               {s.crawl, s.token, strings.Repeat("%C3%A9", 128), "x", 400, nil},
		"a path of its own":       {s.crawl, s.token, "x/y", "x", 404, map[string]any{"error": "not found"}},
		"255 bytes":               {s.crawl, s.token, strings.Repeat("%C3%A9", 127) + "x", "x", 200, nil},
		"a manifest that is none": {s.crawl, s.token, "broken.result.json", `{"taskId":`, 200, nil},
		"a web page as manifest":  {s.crawl, s.token, "page.result.json", `<!DOCTYPE html>`, 200, nil},
	} {
		status, reply := s.upload(t, tc.crawl, tc.token, tc.file, strings.NewReader(tc.body))
		if status != tc.status || (tc.reply != nil && !reflect.DeepEqual(reply, tc.reply)) {
			t.Errorf("%s: %d %v, want %d %v", name, status, reply, tc.status, tc.reply)
		}
		if text, _ := reply["error"].(string); status >= 400 && text == "" {
			t.Errorf("%s: %v", name, reply)
		}
	}
	if n := s.count(t, "SELECT count(*) FROM ledger.capture_submissions"); n != 0 {
		t.Errorf("%d submissions", n)
	}
	s.call(t, 405, "GET", "/api/sink/"+s.crawl+"/a", s.token, nil)
}

// rss returns one number of the process, in bytes: VmRSS is its memory now,
// VmHWM the most that it ever was.
func (l *ledger) rss(t *testing.T, name string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.process.Process.Pid))
	if err != nil {
		t.Skipf("needs /proc: %v", err)
	}
	_, rest, _ := strings.Cut(string(status), name+":")
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// plain builds the program without the race detector, whose own memory is a
// multiple of what it watches.
func plain(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "muniment-ledger")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-race=false", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the ledger: %v\n%s", err, out)
	}
	return program
}

// A large upload, with no length stated, grows the process by no more than its
// one part and what S3's client needs around it. What is over the limit leaves
// nothing.
func TestSinkMemory(t *testing.T) {
	t.Parallel()
	s := newSunk(t, func(l *ledger) { l.program = plain(t) })
	// The first upload takes what every later one uses again.
	if status, reply := s.upload(t, s.crawl, s.token, "warm.wacz", strings.NewReader("PK")); status != 200 {
		t.Fatalf("%d %v", status, reply)
	}
	before := s.rss(t, "VmRSS")
	size := int64(testkit.Soak(64<<20, sink.MaxBytes))
	if status, reply := s.upload(t, s.crawl, s.token, "large.wacz", io.LimitReader(noise{rand.NewChaCha8([32]byte{})}, size)); status != 200 {
		t.Fatalf("%d %v", status, reply)
	}
	grown := s.rss(t, "VmHWM") - before
	t.Logf("%d MiB grew the process by %d MiB at most, from %d", size>>20, grown>>20, before>>20)
	if grown >= 64<<20 {
		t.Errorf("grown by %d bytes", grown)
	}
	info, err := s.s3.Client(t).StatObject(t.Context(), s.s3.Bucket, s.prefix+"large.wacz", minio.StatObjectOptions{})
	if err != nil || info.Size != size {
		t.Errorf("stored %d bytes, %v", info.Size, err)
	}
	if size < sink.MaxBytes {
		return
	}
	if status, reply := s.upload(t, s.crawl, s.token, "over.wacz", io.LimitReader(noise{rand.NewChaCha8([32]byte{})}, size+1)); status != 413 {
		t.Errorf("one byte more: %d %v", status, reply)
	}
	s.leftNothing(t, "over.wacz")
}

type noise struct{ source *rand.ChaCha8 }

func (n noise) Read(p []byte) (int, error) { return n.source.Read(p) }

// leftNothing fails unless neither an object nor the parts of one are there.
func (s *sunk) leftNothing(t *testing.T, name string) {
	t.Helper()
	client := s.s3.Client(t)
	testkit.Eventually(t, 15*time.Second, func() (bool, string) {
		for upload := range client.ListIncompleteUploads(t.Context(), s.s3.Bucket, "", true) {
			return false, upload.Key + " has parts left"
		}
		return true, ""
	})
	for object := range client.ListObjects(t.Context(), s.s3.Bucket, minio.ListObjectsOptions{Prefix: s.prefix + name, WithVersions: true}) {
		t.Errorf("%s is there: %v", object.Key, object.Err)
	}
}

// A browser that goes away in the middle leaves nothing, whatever length it had
// stated, and neither does one whose length was a lie.
func TestSinkAbortedUploads(t *testing.T) {
	t.Parallel()
	s := newSunk(t, func(*ledger) {})
	for name, tc := range map[string]struct {
		header string
		sent   int
		tail   string
	}{
		"short.wacz":  {"Content-Length: 100000000", 100, ""},
		"parts.wacz":  {"Content-Length: 100000000", 20 << 20, ""},
		"chunks.wacz": {"Transfer-Encoding: chunked", 0, "1000000\r\nonly so much"},
	} {
		conn, err := net.Dial("tcp", s.http)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "PUT /api/sink/%s/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s", s.crawl, name, s.token, tc.header, tc.tail)
		if _, err := conn.Write(make([]byte, tc.sent)); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
		s.leftNothing(t, name)
	}
}

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	"github.com/muniment/muniment/pkg/fga"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/sink"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// whole is a ledger with the real relay and the real signer beside it, and a
// crawl of alice's at acme.
type whole struct {
	*ledger
	rows          *store.Store
	crawl         store.Crawl
	relay, signer string // their gRPC addresses
}

const sinkPrefix = "org/acme/2026-11/"

func newWhole(t *testing.T) *whole {
	t.Helper()
	w := &whole{relay: testkit.FreeAddress(t), signer: testkit.FreeAddress(t)}
	w.ledger = newLedger(t, "WEBHOOK_URL=http://127.0.0.1:1/", "SINK_ORIGIN=http://127.0.0.1:1",
		"RELAY_ADDRESS="+w.relay, "SIGNER_ADDRESS="+w.signer)
	w.start(t)
	w.beside(t, "outbox-relay", "MUNIMENT_RELAY_", "GRPC_ADDRESS="+w.relay, "DATABASE_URL="+w.db.URL("relay"))
	w.beside(t, "signer", "MUNIMENT_SIGNER_", "GRPC_ADDRESS="+w.signer, "DATABASE_URL="+w.db.URL("signer"),
		"LEDGER_ADDRESS="+w.grpc, "S3_PUBLIC_ENDPOINT="+w.s3.Endpoint)
	w.rows = store.New(w.db.Pool(t, "ledger"))
	alice, prefix := "alice", sinkPrefix
	w.crawl = store.Crawl{
		ID: uuid.New(), OrgID: "acme", SubmittedBy: &alice, Seeds: []string{"http://a/"}, Scope: "same-origin", ScopeKeys: []string{"http://a"},
		MaxPages: 30, HostParallelism: 1, SinkPrefix: &prefix, StartedAt: time.Now(),
	}
	if err := w.rows.StartCrawl(t.Context(), w.crawl, []store.Page{{URL: "http://a/", Host: "a"}}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	return w
}

// beside runs another service's program, with the ledger's settings for what they
// share.
func (w *whole) beside(t *testing.T, service, itsPrefix string, settings ...string) {
	t.Helper()
	debug, files := testkit.FreeAddress(t), w.certs.Files(service)
	own := append([]string{
		"DEBUG_ADDRESS=" + debug, "DRAIN_DELAY=1ms", "TLS_CERT_FILE=" + files.Cert, "TLS_KEY_FILE=" + files.Key, "TLS_CA_FILE=" + files.CA,
	}, settings...)
	shared := []string{"OPENFGA_API_URL", "OPENFGA_STORE_ID", "OPENFGA_MODEL_ID"}
	if service == "signer" {
		shared = append(shared, "ISSUER_URL", "S3_ENDPOINT", "S3_REGION", "S3_BUCKET", "S3_ACCESS_KEY_FILE", "S3_SECRET_KEY_FILE")
	}
	for _, setting := range w.env {
		name, value, _ := strings.Cut(strings.TrimPrefix(setting, prefix), "=")
		if slices.Contains(shared, name) {
			own = append(own, name+"="+value)
		}
	}
	cmd := exec.Command(testkit.Binary(t, "muniment-"+service))
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"PATH=" + os.Getenv("PATH")}, w.output, w.output
	for _, setting := range own {
		cmd.Env = append(cmd.Env, itsPrefix+setting)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		reply, err := http.Get("http://" + debug + "/readyz")
		if err != nil {
			return false, w.output.String()
		}
		defer reply.Body.Close()
		body, _ := io.ReadAll(reply.Body)
		return reply.StatusCode == http.StatusOK, string(body) + w.output.String()
	})
}

// admitted is an archive of alice's that the engine knows of.
type admitted struct {
	id, task, version, key string
	manifest               []byte
}

func (w *whole) admit(t *testing.T) admitted {
	t.Helper()
	a := admitted{task: uuid.NewString()}
	a.key = sinkPrefix + a.task + ".wacz"
	info, err := w.s3.Client(t).PutObject(t.Context(), w.s3.Bucket, a.key, strings.NewReader("PK"), 2, minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.version = info.VersionID
	a.manifest = []byte(`{"taskId":"` + a.task + `","url":"http://a/","status":"success","timestamp":"2026-11-30T12:00:00Z","captureProcessingTimeMs":1,` +
		`"artifacts":{"wacz":"s3://` + w.s3.Bucket + "/" + a.key + `"}}`)
	key := a.task + ".result.json"
	if err := w.rows.RecordSubmissions(t.Context(), w.crawl, []store.NewSubmission{
		{TaskID: uuid.MustParse(a.task), CorrelationID: "c", SubmittedAt: time.Now(), ManifestKey: &key},
	}); err != nil {
		t.Fatal(err)
	}
	reply := w.offer(t, a)
	a.id = reply.GetArchiveId()
	alice := w.issuer.Token("alice", "acme")
	testkit.Eventually(t, 15*time.Second, func() (bool, string) {
		status, _, err := w.try("GET", "/api/archives/"+a.id, alice, nil)
		return err == nil && status == http.StatusOK, w.output.String()
	})
	return a
}

func (w *whole) offer(t *testing.T, a admitted) *ledgerv1.AdmitManifestResponse {
	t.Helper()
	reply, err := ledgerv1.NewRegistryServiceClient(w.dial(t, "reconciler")).AdmitManifest(t.Context(), &ledgerv1.AdmitManifestRequest{TaskId: a.task, Manifest: a.manifest})
	if err != nil {
		t.Fatalf("%v\n%s", err, w.output)
	}
	return reply
}

// tuples are those that the engine holds of an object.
func (w *whole) tuples(t *testing.T, object string) []fga.Tuple {
	t.Helper()
	var held []fga.Tuple
	if err := w.engine.Read(t.Context(), fga.Key{Object: object}, func(tuple fga.Tuple) error {
		held = append(held, tuple)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return held
}

func (w *whole) fetch(t *testing.T, url string) int {
	t.Helper()
	reply, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	return reply.StatusCode
}

// Sharing over the gateway, from the grant to the URL, with every program real.
func TestSharingOverTheGateway(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	a := w.admit(t)
	if err := w.engine.Write(t.Context(), []fga.Tuple{{User: "user:root", Relation: "admin", Object: "organization:acme"}}, nil); err != nil {
		t.Fatal(err)
	}
	alice, bob, root := w.issuer.Token("alice", "acme"), w.issuer.Token("bob", "acme"), w.issuer.Token("root", "acme")
	dave, mallory := w.issuer.Token("dave", "gamma"), w.issuer.Token("mallory", "beta")
	shares, url := "/api/archives/"+a.id+"/shares", "/api/archives/"+a.id+"/url"

	for body, field := range map[string]string{
		`{"subject":"dave","seconds":59}`: "seconds", `{"subject":"dave","seconds":31536001}`: "seconds", `{"subject":"dave"}`: "seconds",
		`{"subject":"","seconds":60}`: "subject", `{"seconds":60}`: "subject", `{"subject":"a:b","seconds":60}`: "subject",
		`{"subject":"*","seconds":60}`: "subject", `{"subject":"` + strings.Repeat("x", 600) + `","seconds":60}`: "subject", `{"subject":"dave","seconds":1.5}`: "seconds",
	} {
		// Shape comes before authorization: a stranger is told the same.
		for _, who := range []string{alice, mallory} {
			if reply := w.call(t, 400, "POST", shares, who, body); !strings.HasPrefix(reply["error"].(string), field) {
				t.Errorf("%.80s: %v", body, reply)
			}
		}
	}
	w.call(t, 400, "DELETE", shares+"/a%3Ab", alice, nil)
	w.call(t, 401, "POST", shares, "", `{"subject":"dave","seconds":60}`)
	for _, who := range []string{bob, dave, mallory} {
		w.call(t, 404, "POST", shares, who, `{"subject":"mallory","seconds":60}`)
		w.call(t, 404, "GET", shares, who, nil)
		w.call(t, 404, "DELETE", shares+"/dave", who, nil)
	}
	w.call(t, 404, "POST", "/api/archives/"+uuid.NewString()+"/shares", alice, `{"subject":"dave","seconds":60}`)
	w.call(t, 404, "POST", url, dave, `{}`)

	reply := w.call(t, 200, "POST", shares, alice, `{"subject":"dave","seconds":"3600"}`)
	until, err := time.Parse(time.RFC3339Nano, reply["until"].(string))
	if err != nil || reply["subject"] != "dave" || reply["delivered"] != true || time.Until(until) > time.Hour || time.Until(until) < 59*time.Minute {
		t.Fatalf("shared: %v, %v", reply, err)
	}
	signed := w.call(t, 200, "POST", url, dave, `{}`)
	if status := w.fetch(t, signed["url"].(string)); status != http.StatusOK {
		t.Errorf("the recipient's URL: %d", status)
	}
	w.call(t, 404, "POST", shares, dave, `{"subject":"mallory","seconds":60}`) // nobody shares on
	w.call(t, 404, "DELETE", "/api/archives/"+a.id, dave, nil)

	// Renewing, by the organization's admin, to an earlier end.
	reply = w.call(t, 200, "POST", shares, root, `{"subject":"dave","seconds":60}`)
	if reply["delivered"] != true {
		t.Fatalf("renewed: %v", reply)
	}
	w.call(t, 200, "POST", url, dave, `{}`)
	list := w.call(t, 200, "GET", shares, root, nil)["shares"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["until"] != reply["until"] || list[0].(map[string]any)["grantedAt"] == nil {
		t.Errorf("listed: %v, want the end %v", list, reply["until"])
	}

	for round := range 5 {
		reply = w.call(t, 200, "DELETE", shares+"/dave", alice, nil)
		if !reflect.DeepEqual(reply, map[string]any{"removed": true, "delivered": true}) {
			t.Fatalf("taken back: %v", reply)
		}
		w.call(t, 404, "POST", url, dave, `{}`) // at once
		if round < 4 {
			w.call(t, 200, "POST", shares, alice, `{"subject":"dave","seconds":60}`)
			w.call(t, 200, "POST", url, dave, `{}`)
		}
	}
	reply = w.call(t, 200, "DELETE", shares+"/dave", alice, nil)
	if !reflect.DeepEqual(reply, map[string]any{"removed": false, "delivered": true}) {
		t.Errorf("taken back twice: %v", reply)
	}
	if list := w.call(t, 200, "GET", shares, alice, nil)["shares"].([]any); len(list) != 0 {
		t.Errorf("listed after all: %v", list)
	}
}

// A share lapses by the clock alone: the very same tuple still stands.
func TestAShareLapsesWithTheVerySameTuple(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	a := w.admit(t)
	dave := w.issuer.Token("dave", "gamma")
	url := "/api/archives/" + a.id + "/url"
	granted := time.Now().UTC().Add(-55 * time.Second).Truncate(time.Microsecond)
	share := store.Share{Subject: "dave", GrantedAt: granted, Until: granted.Add(time.Minute)}
	if err := w.rows.PutShare(t.Context(), uuid.MustParse(a.id), share, "alice"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 4*time.Second, func() (bool, string) {
		status, _, err := w.try("POST", url, dave, `{}`)
		return err == nil && status == http.StatusOK, w.output.String()
	})
	before := w.tuples(t, fga.Archive(a.id))
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		status, body, err := w.try("POST", url, dave, `{}`)
		if err != nil || (status != http.StatusOK && status != http.StatusNotFound) {
			t.Fatalf("%d %v %v", status, body, err)
		}
		if over := time.Now().After(share.Until); over != (status == http.StatusNotFound) && time.Since(share.Until).Abs() > time.Second {
			t.Fatalf("%d although the share ends at %s", status, share.Until)
		}
		return status == http.StatusNotFound, "still signed"
	})
	if after := w.tuples(t, fga.Archive(a.id)); !reflect.DeepEqual(before, after) || len(after) != 2 {
		t.Errorf("the tuples have changed from %v to %v", before, after)
	}
	// T48: nothing but an expired grant is a no, also in a listing.
	w.call(t, 404, "GET", "/api/archives/"+a.id, dave, nil)
	if list := w.call(t, 200, "GET", "/api/archives", dave, nil)["archives"].([]any); len(list) != 0 {
		t.Errorf("listed: %v", list)
	}
}

// Deleting, from the owner's word to the bytes.
func TestDeletingOverTheGateway(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	a, other := w.admit(t), w.admit(t)
	if err := w.engine.Write(t.Context(), []fga.Tuple{
		{User: "user:root", Relation: "admin", Object: "organization:acme"},
		{ // a grant that an operator wrote, of which the ledger knows nothing
			User: "organization:gamma#member", Relation: "viewer", Object: fga.Archive(a.id),
			Condition: fga.ShareTuple(a.id, "x", time.Now(), time.Hour).Condition,
		},
	}, nil); err != nil {
		t.Fatal(err)
	}
	path := "/api/archives/" + a.id
	alice, root := w.issuer.Token("alice", "acme"), w.issuer.Token("root", "acme")
	dave, bob := w.issuer.Token("dave"), w.issuer.Token("bob", "acme")
	w.call(t, 200, "POST", path+"/shares", alice, `{"subject":"dave","seconds":60}`)
	earlier := w.call(t, 200, "POST", path+"/url", bob, `{}`)["url"].(string)
	for _, who := range []string{root, bob, dave} {
		w.call(t, 404, "DELETE", path, who, nil)
	}
	w.call(t, 401, "DELETE", path, "", nil)
	w.call(t, 400, "DELETE", "/api/archives/nonsense", alice, nil)

	reply := w.call(t, 200, "DELETE", path, alice, nil)
	if !reflect.DeepEqual(reply, map[string]any{"deleted": true, "delivered": true}) {
		t.Fatalf("deleted: %v", reply)
	}
	for _, who := range []string{alice, bob, dave, root, w.issuer.Token("gina", "gamma")} {
		w.call(t, 404, "GET", path, who, nil)
		w.call(t, 404, "POST", path+"/url", who, `{}`)
		w.call(t, 404, "DELETE", path, who, nil)
		w.call(t, 404, "GET", path+"/shares", who, nil)
	}
	list := w.call(t, 200, "GET", "/api/archives", alice, nil)["archives"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["id"] != other.id {
		t.Errorf("listed: %v", list)
	}
	if held := append(w.tuples(t, fga.Archive(a.id)), w.tuples(t, fga.CaptureJob(a.task))...); len(held) != 0 {
		t.Errorf("the engine still holds %v", held)
	}
	if held := w.tuples(t, fga.CaptureJob(other.task)); len(held) != 2 {
		t.Errorf("of another capture the engine holds %v", held)
	}

	// The admitted version goes, also for links that were given out before.
	testkit.Eventually(t, 15*time.Second, func() (bool, string) {
		status := w.fetch(t, earlier)
		return status == http.StatusNotFound, http.StatusText(status)
	})
	if n := w.count(t, `SELECT count(*) FROM ledger.tombstones WHERE deleted_by = 'alice' AND object_version_id = '`+a.version+`' AND deleted_at > now() - interval '1 minute' AND task_id = '`+a.task+`'`); n != 1 {
		t.Errorf("%d tombstones", n)
	}

	// It never comes back: not by the task, not by another task that names the
	// same object, not by the sink.
	if _, err := w.s3.Client(t).PutObject(t.Context(), w.s3.Bucket, a.key, strings.NewReader("PK"), 2, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	again := a
	again.task = uuid.NewString()
	again.manifest = []byte(strings.Replace(string(a.manifest), `"taskId":"`+a.task, `"taskId":"`+again.task, 1))
	key := again.task + ".result.json"
	if err := w.rows.RecordSubmissions(t.Context(), w.crawl, []store.NewSubmission{
		{TaskID: uuid.MustParse(again.task), CorrelationID: "c", SubmittedAt: time.Now(), ManifestKey: &key},
	}); err != nil {
		t.Fatal(err)
	}
	for _, offered := range []admitted{a, again} {
		if reply := w.offer(t, offered); reply.GetOutcome() != ledgerv1.AdmitOutcome_ADMIT_OUTCOME_NEVER || reply.ArchiveId != nil || reply.GetReason() == "" {
			t.Errorf("offered again: %v", reply)
		}
	}
	if n := w.count(t, "SELECT count(*) FROM ledger.capture_holes"); n != 0 {
		t.Errorf("%d holes are left", n)
	}
	tokens := sink.NewTokens([]byte(strings.Repeat("k", 32)))
	w.call(t, 409, "PUT", "/api/sink/"+w.crawl.ID.String()+"/"+a.task+".wacz", tokens.Issue(w.crawl.ID, time.Now().Add(time.Hour)), "PK")
}

// A revocation counts as delivered only when the engine can no longer be told
// otherwise: here a share and its revocation wait together, and the engine
// holds neither.
func TestARevocationThatIsStillToComeIsNotDelivered(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	a := w.admit(t)
	alice := w.issuer.Token("alice", "acme")
	shares := "/api/archives/" + a.id + "/shares"
	// A row that the relay cannot deliver stands before them.
	payload, err := json.Marshal(map[string]any{"writes": []fga.Tuple{{User: "user:x", Relation: "nonsense", Object: fga.Archive(a.id)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.Pool(t, "ledger").Exec(t.Context(), "INSERT INTO outbox.fga_outbox (payload) VALUES ($1)", payload); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if reply := w.call(t, 200, "POST", shares, alice, `{"subject":"dave","seconds":60}`); reply["delivered"] != false {
		t.Errorf("shared: %v", reply)
	}
	if took := time.Since(began); took < 2*time.Second || took > 8*time.Second {
		t.Errorf("waited for %s", took)
	}
	if reply := w.call(t, 200, "DELETE", shares+"/dave", alice, nil); reply["removed"] != true || reply["delivered"] != false {
		t.Errorf("taken back: %v", reply)
	}
}

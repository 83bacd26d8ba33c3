package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
)

// delivery is a database, an engine and a relay process of one test, and the
// operator's settings for them.
type delivery struct {
	ledger, superuser *pgxpool.Pool
	engine            *fga.Client
	env               map[string]string
}

func newDelivery(t *testing.T) delivery {
	t.Helper()
	db, engine, certificates := testkit.Postgres(t), testkit.OpenFGA(t), testkit.Certificates(t)
	client, err := fga.New(config.OpenFGA{APIURL: engine.APIURL, StoreID: engine.StoreID, ModelID: engine.ModelID}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	address := testkit.FreeAddress(t)
	relay, operator := certificates.Files("outbox-relay"), certificates.Files("operator")
	startRelay(t, []string{
		"MUNIMENT_RELAY_GRPC_ADDRESS=" + address,
		"MUNIMENT_RELAY_DEBUG_ADDRESS=127.0.0.1:0",
		"MUNIMENT_RELAY_TLS_CERT_FILE=" + relay.Cert,
		"MUNIMENT_RELAY_TLS_KEY_FILE=" + relay.Key,
		"MUNIMENT_RELAY_TLS_CA_FILE=" + relay.CA,
		"MUNIMENT_RELAY_DATABASE_URL=" + db.URL("relay"),
		"MUNIMENT_RELAY_OPENFGA_API_URL=" + engine.APIURL,
		"MUNIMENT_RELAY_OPENFGA_STORE_ID=" + engine.StoreID,
		"MUNIMENT_RELAY_OPENFGA_MODEL_ID=" + engine.ModelID,
		"MUNIMENT_RELAY_RETRY_DELAY=50ms",
		"MUNIMENT_RELAY_DRAIN_DELAY=10ms",
	}, address)
	return delivery{
		ledger: db.Pool(t, "ledger"), superuser: db.Pool(t, "superuser"), engine: client,
		env: map[string]string{
			"MUNIMENT_RELAY_GRPC_ADDRESS":  address,
			"MUNIMENT_TLS_CERT_FILE":       operator.Cert,
			"MUNIMENT_TLS_KEY_FILE":        operator.Key,
			"MUNIMENT_TLS_CA_FILE":         operator.CA,
			"MUNIMENT_DATABASE_URL":        db.URL("superuser"),
			"MUNIMENT_LEDGER_DATABASE_URL": db.URL("ledger"),
			"OPENFGA_API_URL":              engine.APIURL,
			"OPENFGA_STORE_ID":             engine.StoreID,
			"OPENFGA_MODEL_ID":             engine.ModelID,
		},
	}
}

func startRelay(t *testing.T, environ []string, address string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(testkit.Binary(t, "muniment-outbox-relay"))
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting the relay: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the relay's log:\n%s", log.String())
		}
	})
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false, err.Error()
		}
		_ = conn.Close()
		return true, ""
	})
}

func (d delivery) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	sh := shell{out: &out, getenv: func(name string) string { return d.env[name] }}
	err := run(t.Context(), sh, args)
	return out.String(), err
}

// must runs a command that has to succeed and to say something.
func (d delivery) must(t *testing.T, says string, args ...string) string {
	t.Helper()
	out, err := d.run(t, args...)
	if err != nil || !strings.Contains(out, says) {
		t.Fatalf("muniment %s says %q, %v; want %q", strings.Join(args, " "), out, err, says)
	}
	return out
}

func (d delivery) queue(t *testing.T, payload string) {
	t.Helper()
	if _, err := d.ledger.Exec(t.Context(), "INSERT INTO outbox.fga_outbox (payload) VALUES ($1)", payload); err != nil {
		t.Fatal(err)
	}
}

func TestOutboxCommands(t *testing.T) {
	t.Parallel()
	d := newDelivery(t)
	d.must(t, "waiting: 0", "outbox", "stats")
	d.queue(t, `{"writes":[{"user":"user:eve","relation":"nope","object":"capture_job:1"}]}`)
	d.queue(t, `{"writes":[{"user":"user:alice","relation":"owner","object":"capture_job:2"}]}`)
	d.must(t, "dead: 1", "outbox", "drain", "--wait", "30s")
	out := d.must(t, "dead rows: 1", "outbox", "dead")
	if !strings.Contains(out, "capture_job:1") || !strings.Contains(out, "nope") {
		t.Errorf("dead says %q", out)
	}
	id, _, _ := strings.Cut(out, " ")
	d.must(t, "queued again: 1", "outbox", "retry", id)
	d.must(t, "dead: 1", "outbox", "drain", "--wait", "30s")
	d.must(t, "queued again: 1", "outbox", "retry", "--all")
	for _, wrong := range [][]string{{}, {"dry"}, {"retry"}, {"retry", "x"}, {"discard"}, {"discard", "x", "--reason", "y"}, {"discard", "1"}, {"discard", "1", "2", "--reason", "y"}, {"drain", "--wait", "1h"}, {"stats", "x"}, {"archive"}} {
		if out, err := d.run(t, append([]string{"outbox"}, wrong...)...); err == nil {
			t.Errorf("outbox %v is taken: %q", wrong, out)
		}
	}
}

// A row that can never be delivered is given up by a person: what stood behind it
// goes on, and who gave up what stays on record.
func TestOutboxDiscard(t *testing.T) {
	t.Parallel()
	d := newDelivery(t)
	bad := `{"writes":[{"user":"user:eve","relation":"nope","object":"capture_job:1"}]}`
	d.queue(t, bad)
	d.queue(t, `{"writes":[{"user":"user:alice","relation":"owner","object":"capture_job:1"}]}`)
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		out, err := d.run(t, "outbox", "dead")
		return strings.Contains(out, "dead rows: 1"), fmt.Sprint(out, err)
	})
	id, _, _ := strings.Cut(d.must(t, "dead rows: 1", "outbox", "dead"), " ")
	d.must(t, "waiting: 1", "outbox", "stats")
	d.must(t, "discarded: "+id, "outbox", "discard", id, "--reason", "a relation that no model had", "--person", "alice")
	d.must(t, "dead: 0", "outbox", "drain", "--wait", "30s")
	held := 0
	if err := d.engine.Read(t.Context(), fga.Key{}, func(fga.Tuple) error { held++; return nil }); err != nil || held != 1 {
		t.Errorf("the engine holds %d tuples, %v; the row behind the discarded one was delivered", held, err)
	}
	var certificate, person, reason, refusal string
	var same bool
	if err := d.superuser.QueryRow(t.Context(), `
		SELECT certificate, person, reason, refusal, payload = $2::jsonb AND discarded_at > created_at
		  FROM outbox.discards WHERE row_id = $1`, id, bad).Scan(&certificate, &person, &reason, &refusal, &same); err != nil {
		t.Fatal(err)
	}
	if certificate != "operator" || person != "alice" || reason != "a relation that no model had" || !strings.Contains(refusal, "nope") || !same {
		t.Errorf("on record: %s, %s, %s, %s, the row's own: %v", certificate, person, reason, refusal, same)
	}
	if out, err := d.run(t, "outbox", "discard", id, "--reason", "again", "--person", "bob"); err == nil || !strings.Contains(err.Error(), "the row is not set aside") {
		t.Errorf("discarding twice: %q, %v", out, err)
	}
}

// Old delivered rows go into the file, whole; younger ones, and what was not
// delivered, stay.
func TestOutboxArchive(t *testing.T) {
	t.Parallel()
	d := newDelivery(t)
	d.queue(t, `{"writes":[{"user":"user:alice","relation":"owner","object":"capture_job:1"}]}`)
	d.queue(t, `{"writes":[{"user":"user:alice","relation":"owner","object":"capture_job:2"}]}`)
	d.queue(t, `{"writes":[{"user":"user:eve","relation":"nope","object":"capture_job:3"}]}`)
	d.must(t, "waiting: 0", "outbox", "drain", "--wait", "30s")
	if _, err := d.superuser.Exec(t.Context(), `
		UPDATE outbox.fga_outbox SET processed_at = now() - interval '100 days'
		 WHERE id = (SELECT min(id) FROM outbox.fga_outbox)`); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "old.jsonl")
	d.must(t, "archived: 1 rows", "outbox", "archive", "--older-than", "2160h", "--to", file)
	content, err := os.ReadFile(file)
	if err != nil || strings.Count(string(content), "\n") != 1 || !strings.Contains(string(content), "capture_job:1") {
		t.Errorf("the file holds %q, %v", content, err)
	}
	if _, err := d.run(t, "outbox", "archive", "--older-than", "2160h", "--to", file); err == nil {
		t.Error("an existing file was taken")
	}
	var left int
	if err := d.superuser.QueryRow(t.Context(), "SELECT count(*) FROM outbox.fga_outbox").Scan(&left); err != nil || left != 2 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}

func TestOutboxAudit(t *testing.T) {
	t.Parallel()
	d := newDelivery(t)
	type pair struct{ archive, task string }
	var captures []pair
	for range 3 {
		p := pair{uuid.NewString(), uuid.NewString()}
		captures = append(captures, p)
		if _, err := d.superuser.Exec(t.Context(), `
			WITH s AS (INSERT INTO ledger.capture_submissions (task_id, org_id, submitted_by, manifest_key)
			           VALUES ($2::uuid, 'acme', 'alice', 'k'))
			INSERT INTO ledger.archives (id, task_id, bucket, object_key, source_url, captured_at, object_etag, object_size)
			VALUES ($1::uuid, $2::uuid, 'b', ($1::uuid)::text, 'http://x/', now(), 'e', 1)`, p.archive, p.task); err != nil {
			t.Fatal(err)
		}
	}
	var all []fga.Tuple
	for _, p := range captures {
		all = append(all, fga.CaptureTuples(p.archive, p.task, "acme", "alice")...)
	}
	stray := fga.Tuple{User: fga.User("mallory"), Relation: "owner", Object: fga.CaptureJob(captures[0].task)}
	notJudged := []fga.Tuple{
		{User: fga.User("alice"), Relation: "submitter", Object: fga.Organization("acme")},
		fga.ShareTuple(captures[0].archive, "dave", time.Now(), time.Hour),
	}
	// Shares: one is there, one lacks, one ends at another time in the engine.
	granted := time.Now().UTC().Truncate(time.Microsecond)
	for _, subject := range []string{"erin", "frank", "grace"} {
		if _, err := d.superuser.Exec(t.Context(), `
			INSERT INTO ledger.shares (archive_id, subject, granted_by, granted_at, until)
			VALUES ($1, $2, 'alice', $3, $4)`, captures[1].archive, subject, granted, granted.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	share := func(subject string, length time.Duration) fga.Tuple {
		return fga.ShareTuple(captures[1].archive, subject, granted, length)
	}
	stale := share("grace", 2*time.Hour)
	// A deletion whose tuples stayed, a viewer among them.
	buried := pair{uuid.NewString(), uuid.NewString()}
	if _, err := d.superuser.Exec(t.Context(), `
		WITH s AS (INSERT INTO ledger.capture_submissions (task_id, org_id, submitted_by, manifest_key)
		           VALUES ($2::uuid, 'acme', 'alice', 'k'))
		INSERT INTO ledger.archives (id, task_id, bucket, object_key, source_url, captured_at, object_etag, object_size)
		VALUES ($1::uuid, $2::uuid, 'b', 'buried', 'http://x/', now(), 'e', 1)`, buried.archive, buried.task); err != nil {
		t.Fatal(err)
	}
	if _, err := d.superuser.Exec(t.Context(), "INSERT INTO ledger.tombstones (archive_id, deleted_by, deleted_at) VALUES ($1, 'alice', now())", buried.archive); err != nil {
		t.Fatal(err)
	}
	remains := append(fga.CaptureTuples(buried.archive, buried.task, "acme", "alice"), fga.ShareTuple(buried.archive, "erin", granted, time.Hour))
	there := slices.Concat(all[1:], []fga.Tuple{stray, share("erin", time.Hour), stale}, notJudged, remains)
	if err := d.engine.Write(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}

	out, err := d.run(t, "outbox", "audit")
	if err == nil || !strings.Contains(out, "lacks: "+all[0].User+" parent "+all[0].Object) ||
		!strings.Contains(out, "too much: user:mallory owner "+stray.Object) || !strings.Contains(out, "lacking: 3\ntoo much: 6") ||
		!strings.Contains(out, "granted by hand, not judged: 1") {
		t.Fatalf("audit says %q, %v", out, err)
	}
	d.must(t, "queued: 5 rows", "outbox", "audit", "--repair")
	d.must(t, "lacking: 0\ntoo much: 0", "outbox", "audit")
	held := 0
	if err := d.engine.Read(context.Background(), fga.Key{}, func(fga.Tuple) error { held++; return nil }); err != nil {
		t.Fatal(err)
	}
	if held != len(all)+len(notJudged)+3 {
		t.Errorf("the engine holds %d tuples", held)
	}

	// Of a deleted archive nothing may be left, shares included.
	if _, err := d.superuser.Exec(t.Context(), "INSERT INTO ledger.tombstones (archive_id, deleted_by, deleted_at) VALUES ($1, 'alice', now())", captures[0].archive); err != nil {
		t.Fatal(err)
	}
	out, err = d.run(t, "outbox", "audit")
	if err == nil || !strings.Contains(out, "too much: user:dave viewer archive:"+captures[0].archive) || !strings.Contains(out, "lacking: 0\ntoo much: 4") {
		t.Fatalf("after a deletion, audit says %q, %v", out, err)
	}
	d.must(t, "queued: 2 rows", "outbox", "audit", "--repair")
	d.must(t, "lacking: 0\ntoo much: 0", "outbox", "audit")
}

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/testkit"
)

// feedStack is a publisher of alerts, the real archiver that reads it when it is
// told to, and the operator's settings for both.
type feedStack struct {
	answer atomic.Pointer[string]
	db     *testkit.DB
	env    map[string]string
}

func newFeedStack(t *testing.T) *feedStack {
	t.Helper()
	f := &feedStack{db: testkit.Postgres(t)}
	publisher := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, *f.answer.Load()) }))
	t.Cleanup(publisher.Close)
	certificates := testkit.Certificates(t)
	archiver, operator, address := certificates.Files("feed-archiver"), certificates.Files("operator"), testkit.FreeAddress(t)
	cmd := exec.Command(testkit.Binary(t, "muniment-feed-archiver"))
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	for _, setting := range []string{
		"GRPC_ADDRESS=" + address, "DEBUG_ADDRESS=127.0.0.1:0", "DRAIN_DELAY=10ms",
		"TLS_CERT_FILE=" + archiver.Cert, "TLS_KEY_FILE=" + archiver.Key, "TLS_CA_FILE=" + archiver.CA,
		"DATABASE_URL=" + f.db.URL("feed"), "CONTACT=tests@example.org", "HOST_SPACING=0s",
		"SOURCES=nws_alerts,nhc_surge", "FIRST_READ_AFTER=1h", "NWS_ALERTS_URL=" + publisher.URL + "/alerts/active",
	} {
		cmd.Env = append(cmd.Env, "MUNIMENT_FEED_"+setting)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the archiver's log:\n%s", log.String())
		}
	})
	f.env = map[string]string{
		"MUNIMENT_FEED_GRPC_ADDRESS": address, "MUNIMENT_DATABASE_URL": f.db.URL("superuser"),
		"MUNIMENT_TLS_CERT_FILE": operator.Cert, "MUNIMENT_TLS_KEY_FILE": operator.Key, "MUNIMENT_TLS_CA_FILE": operator.CA,
	}
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		_, err := f.run(t, "feeds")
		return err == nil, fmt.Sprint(err)
	})
	return f
}

func (f *feedStack) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), shell{out: &out, getenv: func(name string) string { return f.env[name] }}, args)
	return out.String(), err
}

// serve makes the publisher answer with these alerts.
func (f *feedStack) serve(ids ...string) {
	features := make([]string, len(ids))
	for i, id := range ids {
		features[i] = fmt.Sprintf(`{"type":"Feature","properties":{"id":%q,"sent":"2026-11-30T12:00:00Z"}}`, id)
	}
	f.raw(`{"type":"FeatureCollection","features":[` + strings.Join(features, ",") + `]}`)
}

func (f *feedStack) raw(body string) { f.answer.Store(&body) }

func (f *feedStack) rows(t *testing.T) int {
	t.Helper()
	var n int
	err := f.db.Pool(t, "superuser").QueryRow(t.Context(), `SELECT (SELECT count(*) FROM feed.as_issued_polls) + (SELECT count(*) FROM feed.as_issued_products)
		+ (SELECT count(*) FROM feed.as_issued_failed_reads)`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFeedsReadOnce(t *testing.T) {
	t.Parallel()
	f := newFeedStack(t)
	f.serve("a", "b")
	for _, step := range []struct {
		args, says, fails string
		rows              int
	}{
		{"feeds", "nws_alerts  1m0s   not read yet", "", 0},
		{"feeds read nws_alerts --once --dry-run", "active: status 200, 2 items, 2 new\n", "", 0},
		{"feeds read nws_alerts --once", "active: status 200, 2 items, 2 new\n", "", 3},
		{"feeds read --once nws_alerts", "active: status 200, 2 items, 0 new\n", "", 4},
		{"feeds read --dry-run nws_alerts", "active: status 200, 2 items, 0 new\n", "", 4},
		{"feeds", "nws_alerts  1m0s   ok", "", 4},
		{"feeds read nhc_surge", "nhc_surge has nothing to read", "", 4},
		{"feeds read usgs_earthquakes", "", "reads no source of that name", 4},
		{"feeds read", "", "the name of a source is needed", 4},
		{"feeds read nws_alerts --once=false", "", "read once", 4},
		{"feeds write", "", `unknown argument "write"`, 4},
	} {
		out, err := f.run(t, strings.Fields(step.args)...)
		if !strings.Contains(out, step.says) || (err == nil) != (step.fails == "") || (err != nil && !strings.Contains(err.Error(), step.fails)) {
			t.Errorf("%s: %q, %v; want %q, %q", step.args, out, err, step.says, step.fails)
		}
		if n := f.rows(t); n != step.rows {
			t.Errorf("%s: %d rows, want %d", step.args, n, step.rows)
		}
	}
	f.raw(`<!DOCTYPE html>`)
	out, err := f.run(t, "feeds", "read", "nws_alerts", "--once")
	if err == nil || !strings.Contains(out, "active: FAILED READ (status 200): ") || f.rows(t) != 5 {
		t.Errorf("a web page: %q, %v", out, err)
	}
	if out, err = f.run(t, "feeds"); err != nil || !strings.Contains(out, "nws_alerts  1m0s   failing") {
		t.Errorf("after a failed read: %q, %v", out, err)
	}
}

// Replaying is the real program's: it finds its other half beside itself.
func TestFeedsReplay(t *testing.T) {
	t.Parallel()
	program, db := testkit.Binary(t, "muniment"), testkit.Postgres(t)
	testkit.Binary(t, "muniment-feed-replay")
	server := db.Pool(t, "superuser")
	dir := t.TempDir()
	file := func(name, body string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := file("first.json", `{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"id":"a","sent":"2026-11-30T12:00:00Z"}},{"type":"Feature","properties":{"id":"b","sent":"never"}}]}`)
	second := file("second.json", `{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"id":"a","sent":"2026-11-30T12:00:00.0Z"}},{"properties":{"sent":"never","id":"b"}, "type":"Feature"}]}`)
	wrong := file("wrong.json", `{"title":"Bad Request","status":400}`)
	contours := file("contours.json", `{"type":"FeatureCollection","metadata":{"eventid":"us1"},"features":[]}`)
	for name, c := range map[string]struct {
		args, says []string
		status     int
	}{
		"two reads and a failed one": {[]string{"nws_alerts", first, second, wrong}, []string{
			"a\t-\t2026-11-30T12:00:00Z\t", "b\t-\t-\t", "first.json: 2 items, 2 distinct bodies, 2 new",
			"second.json: 2 items, 2 distinct bodies, 1 new", "wrong.json: FAILED READ: ", "1 of 3 bodies would be failed reads",
		}, 1},
		"flags":            {[]string{"usgs_shakemap_contours", contours, "--event", "us1", "--version", "2", "--source", "us", "--code", "c", "--request", "r"}, []string{"us1:cont_mmi:2\tus:c\t-\t", "1 new"}, 0},
		"no such source":   {[]string{"nws_alert", first}, []string{`"nws_alert" is not a source`}, 1},
		"without any file": {[]string{"nws_alerts"}, []string{"at least one file"}, 1},
	} {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"feeds", "replay"}, c.args...)...)
		cmd.Env = []string{"MUNIMENT_DATABASE_URL=" + db.URL("superuser")}
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != c.status {
			t.Errorf("%s: exit status %d, want %d: %s", name, got, c.status, out)
		}
		for _, says := range c.says {
			if !strings.Contains(string(out), says) {
				t.Errorf("%s says %q; want %q", name, out, says)
			}
		}
	}
	// Other tests may be replaying at this moment.
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		var left int
		err := server.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname LIKE 'muniment_replay_%'").Scan(&left)
		return err == nil && left == 0, fmt.Sprintf("%d scratch databases are left, %v", left, err)
	})
}

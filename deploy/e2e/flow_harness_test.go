package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/muniment/muniment/deploy/standins/browserhive"
	"github.com/muniment/muniment/deploy/standins/site"
	"github.com/muniment/muniment/deploy/standins/windmill"
	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/devissuer"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
)

// workspace is the real workspace folder, built once; the built scripts are
// shared with the local stack.
var workspace = sync.OnceValues(func() (*windmill.Workspace, error) {
	return windmill.Load(context.Background(), "../windmill", "../../.local/windmill", "go")
})

// flow is the real ledger with the real flow behind its webhook; the browsers
// that the flow finds are set by the test.
type flow struct {
	db     *testkit.DB
	s3     testkit.S3
	issuer *devissuer.Issuer

	gateway   string
	ledger    *lockedBuffer
	variables string
	front     *front
	alice     string
}

// newFlow starts a ledger on engines of its own. With sink, artifacts come
// through it and not into the bucket. settings are further variables of the
// ledger, without the prefix.
func newFlow(t *testing.T, sink bool, settings ...string) *flow {
	t.Helper()
	flows, err := workspace()
	if err != nil {
		t.Fatal(err)
	}
	f := &flow{db: testkit.Postgres(t), s3: testkit.Bucket(t), issuer: testkit.Issuer(t), ledger: &lockedBuffer{}, variables: filepath.Join(t.TempDir(), "variables.json")}
	address := free(t)
	f.gateway, f.alice = "http://"+address, f.issuer.Token("alice", "acme")
	engine := testkit.OpenFGA(t)
	rights, err := fga.New(config.OpenFGA{APIURL: engine.APIURL, StoreID: engine.StoreID, ModelID: engine.ModelID, Timeout: 10 * time.Second}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	err = rights.Write(t.Context(), []fga.Tuple{
		{User: fga.User("alice"), Relation: "submitter", Object: fga.Organization("acme")},
		{User: fga.User("windmill"), Relation: "submitter", Object: fga.Organization("acme")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	standIn := windmill.New("muniment", "webhook-token", flows, windmill.VariableFile(f.variables), slog.New(slog.NewTextHandler(t.Output(), nil)))
	f.front = newFront(t, standIn)
	t.Cleanup(standIn.Close)

	dir, files := t.TempDir(), testkit.Certificates(t).Files("ledger")
	secret := func(name, value string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	settings = append(settings,
		"GRPC_ADDRESS="+free(t), "HTTP_ADDRESS="+address, "DEBUG_ADDRESS="+free(t), "DRAIN_DELAY=50ms",
		"TLS_CERT_FILE="+files.Cert, "TLS_KEY_FILE="+files.Key, "TLS_CA_FILE="+files.CA, "DATABASE_URL="+f.db.URL("ledger"),
		"S3_ENDPOINT="+f.s3.Endpoint, "S3_REGION="+f.s3.Region, "S3_BUCKET="+f.s3.Bucket,
		"S3_ACCESS_KEY_FILE="+secret("access", f.s3.AccessKey), "S3_SECRET_KEY_FILE="+secret("secret", f.s3.SecretKey),
		"OPENFGA_API_URL="+engine.APIURL, "OPENFGA_STORE_ID="+engine.StoreID, "OPENFGA_MODEL_ID="+engine.ModelID,
		"ISSUER_URL="+f.issuer.URL, "SERVICE_SUBJECTS=windmill",
		"WEBHOOK_URL="+f.front.server.URL+"/api/w/muniment/jobs/run/f/f/muniment/crawl_level", "WEBHOOK_TOKEN_FILE="+secret("token", "webhook-token"),
	)
	if sink {
		settings = append(settings, "SINK_ORIGIN="+f.gateway, "SINK_SECRET_FILE="+secret("sink", strings.Repeat("k", 32)))
	}
	program := exec.Command(testkit.Binary(t, "muniment-ledger"))
	program.Env, program.Stdout, program.Stderr = []string{"PATH=" + os.Getenv("PATH")}, f.ledger, f.ledger
	for _, setting := range settings {
		program.Env = append(program.Env, "MUNIMENT_LEDGER_"+setting)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill(); _ = program.Wait() })
	testkit.Eventually(t, time.Minute, func() (bool, string) {
		status, _, err := f.try(http.MethodGet, "/api/me", nil)
		return err == nil && status == http.StatusOK, f.ledger.String()
	})
	return f
}

func free(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().String()
}

// browsers says which browsers the flow finds from now on.
func (f *flow) browsers(t *testing.T, endpoints ...string) {
	t.Helper()
	list, err := json.Marshal(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	variables, err := json.Marshal(windmill.VariableMap{
		"f/muniment/gateway_url": f.gateway, "f/muniment/gateway_token": f.issuer.Token("windmill"),
		"f/muniment/browserhive_endpoints": string(list), "f/muniment/browserhive_ca": "", "f/muniment/respect_robots": "true",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.variables, variables, 0o600); err != nil {
		t.Fatal(err)
	}
}

// browser starts a BrowserHive that writes into the flow's bucket.
func (f *flow) browser(t *testing.T) string {
	t.Helper()
	return newBrowser(t, f.s3.Client(t), f.s3.Bucket)
}

// newBrowser starts a BrowserHive; without a store it takes only captures that
// name a sink.
func newBrowser(t *testing.T, store *minio.Client, bucket string) string {
	t.Helper()
	standIn, err := browserhive.New(browserhive.Settings{}, store, bucket, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(standIn)
	t.Cleanup(func() { server.Close(); standIn.Close() })
	return server.URL
}

// dead is the address of a browser that is gone.
func dead() string {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	return server.URL
}

// newSite starts the demo site on a loopback address of its own.
func newSite(t *testing.T, ip string) string {
	t.Helper()
	lis, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Skipf("no second loopback address on this machine: %v", err)
	}
	server := &httptest.Server{Listener: lis, Config: &http.Server{Handler: site.Handler()}}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// front stands before the workflow engine and answers the webhook as a test
// wants it.
type front struct {
	server *httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
	pass   http.Handler
	jobs   atomic.Int32
}

func newFront(t *testing.T, engine http.Handler) *front {
	t.Helper()
	inner := httptest.NewServer(engine)
	target, err := url.Parse(inner.URL)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{pass: httputil.NewSingleHostReverseProxy(target)}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := f.answer.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		f.hand(w, r)
	}))
	t.Cleanup(func() { f.server.Close(); inner.Close() })
	return f
}

// hand hands the order on.
func (f *front) hand(w http.ResponseWriter, r *http.Request) {
	f.jobs.Add(1)
	f.pass.ServeHTTP(w, r)
}

func (f *front) answers(with http.HandlerFunc) {
	if with == nil {
		f.answer.Store(nil)
		return
	}
	f.answer.Store(&with)
}

func (f *flow) try(method, path string, body any) (int, map[string]any, error) {
	var content io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		content = bytes.NewReader(encoded)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, f.gateway+path, content)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+f.alice)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	var object map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&object); err != nil {
		return resp.StatusCode, nil, errors.New("the answer is no JSON object")
	}
	return resp.StatusCode, object, nil
}

// start starts a crawl.
func (f *flow) start(t *testing.T, order map[string]any) string {
	t.Helper()
	status, reply, err := f.try(http.MethodPost, "/api/crawls", order)
	if err != nil || status != http.StatusAccepted {
		t.Fatalf("starting a crawl: %d %v %v\n%s", status, reply, err, f.ledger)
	}
	return reply["crawlId"].(string)
}

// ends waits for a crawl's end and returns it.
func (f *flow) ends(t *testing.T, id string) map[string]any {
	t.Helper()
	var crawl map[string]any
	testkit.Eventually(t, 2*time.Minute, func() (bool, string) {
		status, got, err := f.try(http.MethodGet, "/api/crawls/"+id, nil)
		crawl = got
		return err == nil && status == http.StatusOK && got["state"] != "running", fmt.Sprint(status, got, err)
	})
	return crawl
}

func (f *flow) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := f.db.Pool(t, "superuser").QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// gap is the time from a capture's end to the next one's start at the same host,
// over all crawls.
type gap struct {
	host, url string
	after     time.Duration
}

// gaps are measured from the ledger's own pages, and kept per host.
func (f *flow) gaps(t *testing.T) []gap {
	t.Helper()
	rows, err := f.db.Pool(t, "superuser").Query(t.Context(), `
		SELECT host, url, extract(epoch FROM submitted_at - lag(finished_at) OVER (PARTITION BY host ORDER BY submitted_at))::float8
		FROM ledger.crawl_pages WHERE submitted_at IS NOT NULL ORDER BY host, submitted_at`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var gaps []gap
	for rows.Next() {
		var g gap
		var seconds *float64
		if err := rows.Scan(&g.host, &g.url, &seconds); err != nil {
			t.Fatal(err)
		}
		if seconds != nil { // nothing came before the first
			g.after = time.Duration(*seconds * float64(time.Second))
			gaps = append(gaps, g)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return gaps
}

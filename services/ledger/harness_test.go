package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"google.golang.org/grpc"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/devissuer"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/testkit"
)

// ledger is the real program on real engines.
type ledger struct {
	db     *testkit.DB
	s3     testkit.S3
	issuer *devissuer.Issuer
	engine *fga.Client
	certs  testkit.Certs
	env    []string

	grpc, http string
	program    string
	process    *exec.Cmd
	output     *lockedBuffer
}

// lockedBuffer holds a program's output.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newLedger prepares a ledger; start runs it. settings are further variables,
// without the prefix.
func newLedger(t *testing.T, settings ...string) *ledger {
	t.Helper()
	l := &ledger{db: testkit.Postgres(t), s3: testkit.Bucket(t), issuer: testkit.Issuer(t), certs: testkit.Certificates(t), output: &lockedBuffer{}}
	l.program = testkit.Binary(t, "muniment-ledger")
	store := testkit.OpenFGA(t)
	var err error
	l.engine, err = fga.New(config.OpenFGA{APIURL: store.APIURL, StoreID: store.StoreID, ModelID: store.ModelID, Timeout: 3 * time.Second}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	files := l.certs.Files("ledger")
	dir := t.TempDir()
	secret := func(name, value string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	l.grpc, l.http = testkit.FreeAddress(t), testkit.FreeAddress(t)
	l.env = []string{"PATH=" + os.Getenv("PATH")}
	for _, setting := range append([]string{
		"GRPC_ADDRESS=" + l.grpc, "HTTP_ADDRESS=" + l.http, "DEBUG_ADDRESS=" + testkit.FreeAddress(t), "DRAIN_DELAY=50ms",
		"TLS_CERT_FILE=" + files.Cert, "TLS_KEY_FILE=" + files.Key, "TLS_CA_FILE=" + files.CA, "DATABASE_URL=" + l.db.URL("ledger"),
		"S3_ENDPOINT=" + l.s3.Endpoint, "S3_REGION=" + l.s3.Region, "S3_BUCKET=" + l.s3.Bucket,
		"S3_ACCESS_KEY_FILE=" + secret("access", l.s3.AccessKey), "S3_SECRET_KEY_FILE=" + secret("secret", l.s3.SecretKey),
		"OPENFGA_API_URL=" + store.APIURL, "OPENFGA_STORE_ID=" + store.StoreID, "OPENFGA_MODEL_ID=" + store.ModelID,
		"ISSUER_URL=" + l.issuer.URL, "SERVICE_SUBJECTS=windmill", "WEBHOOK_TOKEN_FILE=" + secret("token", "s3cret"),
		"SINK_SECRET_FILE=" + secret("sink", strings.Repeat("k", 32)),
	}, settings...) {
		l.env = append(l.env, prefix+setting)
	}
	return l
}

// start runs the program and waits until it serves.
func (l *ledger) start(t *testing.T) {
	t.Helper()
	l.process = exec.Command(l.program)
	l.process.Env, l.process.Stdout, l.process.Stderr = l.env, l.output, l.output
	if err := l.process.Start(); err != nil {
		t.Fatal(err)
	}
	process := l.process
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		status, _, err := l.try("GET", "/api/me", "", nil)
		if err != nil || status != http.StatusUnauthorized {
			return false, l.output.String()
		}
		// The two ports open one after the other.
		conn, err := net.Dial("tcp", l.grpc)
		if err != nil {
			return false, err.Error() + "\n" + l.output.String()
		}
		return conn.Close() == nil, ""
	})
}

// kill is kill -9.
func (l *ledger) kill(t *testing.T) {
	t.Helper()
	if err := l.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = l.process.Wait()
}

// dial returns a gRPC client under a peer's certificate.
func (l *ledger) dial(t *testing.T, peer string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpcx.Dial(l.grpc, "ledger", l.certs.Files(peer))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// grant lets somebody submit for an organization.
func (l *ledger) grant(t *testing.T, subject, org string) {
	t.Helper()
	if err := l.engine.Write(t.Context(), []fga.Tuple{{User: fga.User(subject), Relation: "submitter", Object: fga.Organization(org)}}, nil); err != nil {
		t.Fatal(err)
	}
}

func (l *ledger) try(method, path, token string, body any) (int, map[string]any, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	if text, ok := body.(string); ok {
		raw = []byte(text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+l.http+path, bytes.NewReader(raw))
	if err != nil {
		return 0, nil, err
	}
	if body == nil {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(reply, &object); err != nil {
		return resp.StatusCode, nil, err
	}
	return resp.StatusCode, object, nil
}

// call fails unless the gateway answers with the status, and returns the body.
func (l *ledger) call(t *testing.T, status int, method, path, token string, body any) map[string]any {
	t.Helper()
	got, object, err := l.try(method, path, token, body)
	if err != nil || got != status {
		t.Fatalf("%s %s: %d %v %v, want %d\n%s", method, path, got, object, err, status, l.output.String())
	}
	return object
}

func (l *ledger) put(t *testing.T, key, body string) string {
	t.Helper()
	if _, err := l.s3.Client(t).PutObject(t.Context(), l.s3.Bucket, key, strings.NewReader(body), int64(len(body)), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	return "s3://" + l.s3.Bucket + "/" + key
}

// capture puts a WACZ into the bucket and returns its manifest.
func (l *ledger) capture(t *testing.T, task uuid.UUID) string {
	t.Helper()
	wacz := l.put(t, task.String()+".wacz", "PK")
	return `{"taskId":"` + task.String() + `","url":"http://a/","status":"success","timestamp":"2026-11-30T12:00:00Z","captureProcessingTimeMs":1,"artifacts":{"wacz":"` + wacz + `"}}`
}

func (l *ledger) count(t *testing.T, sql string) int {
	t.Helper()
	var n int
	if err := l.db.Pool(t, "superuser").QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// flow is a stand-in for the workflow engine's webhook.
type flow struct {
	*httptest.Server
	orders chan map[string]any
}

func newFlow(t *testing.T, answer func(w http.ResponseWriter)) *flow {
	t.Helper()
	f := &flow{orders: make(chan map[string]any, 16)}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order map[string]any
		if r.Header.Get("Authorization") != "Bearer s3cret" || json.NewDecoder(r.Body).Decode(&order) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		f.orders <- order
		answer(w)
	}))
	t.Cleanup(f.Close)
	return f
}

// next is the next order that the ledger sent.
func (f *flow) next(t *testing.T) map[string]any {
	t.Helper()
	select {
	case order := <-f.orders:
		return order
	case <-time.After(15 * time.Second):
		t.Fatal("the webhook was not called")
		return nil
	}
}

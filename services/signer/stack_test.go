package main

import (
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/devissuer"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/grpcx"
	ledgerpb "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	signerpb "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/pkg/testkit"
)

// stack is a whole signer, wired by run, on real engines. Only the ledger is
// ours: a real gRPC server that knows the archives it was told of.
type stack struct {
	db     *testkit.DB
	engine testkit.FGA
	tuples *fga.Client
	bucket testkit.S3
	certs  testkit.Certs
	issuer *devissuer.Issuer
	ledger *ledger

	grpcAddress, debugAddress string
}

// start starts a signer whose environment is the usual one with changes.
func start(t testing.TB, engine testkit.FGA, changes map[string]string) *stack {
	t.Helper()
	s := &stack{
		db: testkit.Postgres(t), engine: engine, bucket: testkit.Bucket(t),
		certs: testkit.Certificates(t), issuer: testkit.Issuer(t),
		grpcAddress: testkit.FreeAddress(t), debugAddress: testkit.FreeAddress(t),
	}
	var err error
	s.tuples, err = fga.New(config.OpenFGA{APIURL: engine.APIURL, StoreID: engine.StoreID, ModelID: engine.ModelID}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s.ledger = startLedger(t, s.certs.Files("ledger"))

	tls := s.certs.Files("signer")
	environ := map[string]string{
		"GRPC_ADDRESS": s.grpcAddress, "DEBUG_ADDRESS": s.debugAddress, "LOG_LEVEL": "warn", "DRAIN_DELAY": "1ms",
		"TLS_CERT_FILE": tls.Cert, "TLS_KEY_FILE": tls.Key, "TLS_CA_FILE": tls.CA,
		"DATABASE_URL":    s.db.URL("signer"),
		"OPENFGA_API_URL": engine.APIURL, "OPENFGA_STORE_ID": engine.StoreID, "OPENFGA_MODEL_ID": engine.ModelID,
		"ISSUER_URL":  s.issuer.URL,
		"S3_ENDPOINT": s.bucket.Endpoint, "S3_PUBLIC_ENDPOINT": s.bucket.Endpoint, "S3_REGION": s.bucket.Region, "S3_BUCKET": s.bucket.Bucket,
		"S3_ACCESS_KEY_FILE": secretFile(t, s.bucket.AccessKey), "S3_SECRET_KEY_FILE": secretFile(t, s.bucket.SecretKey),
		"LEDGER_ADDRESS": s.ledger.address,
	}
	maps.Copy(environ, changes)
	var lines []string
	for name, value := range environ {
		lines = append(lines, prefix+name+"="+value)
	}
	inBackground(t, "the signer", func(ctx context.Context) error { return run(ctx, lines) })
	return s
}

// ready waits until the signer says that it is.
func (s *stack) ready(t testing.TB) *stack {
	t.Helper()
	health := healthpb.NewHealthClient(s.dial(t, "ledger"))
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		reply, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			return false, err.Error()
		}
		return reply.GetStatus() == healthpb.HealthCheckResponse_SERVING, s.readyPage(t)
	})
	return s
}

// readyPage is what the debug server says about readiness.
func (s *stack) readyPage(t testing.TB) string {
	t.Helper()
	return s.page(t, "/readyz")
}

func (s *stack) page(t testing.TB, path string) string {
	t.Helper()
	reply, err := http.Get("http://" + s.debugAddress + path)
	if err != nil {
		return err.Error()
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// dial connects to the signer as a named peer.
func (s *stack) dial(t testing.TB, peer string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpcx.Dial(s.grpcAddress, "signer", s.certs.Files(peer))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// as returns a client at the gateway's place and a context with a user's token.
func (s *stack) as(t testing.TB, subject string, organizations ...string) (signerpb.SignerServiceClient, context.Context) {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+s.issuer.Token(subject, organizations...))
	return signerpb.NewSignerServiceClient(s.dial(t, "ledger")), ctx
}

// archive puts an object into the bucket, tells the ledger and writes the tuples
// that admission would queue.
func (s *stack) archive(t testing.TB, key, body, organization, owner string) string {
	t.Helper()
	info, err := s.bucket.Client(t).PutObject(t.Context(), s.bucket.Bucket, key, strings.NewReader(body), int64(len(body)), minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.NewString()
	found := &ledgerpb.LookupArchiveResponse{ArchiveId: id, Bucket: s.bucket.Bucket, ObjectKey: key}
	if info.VersionID != "" {
		found.VersionId = &info.VersionID
	}
	s.ledger.put(found)
	if err := s.tuples.Write(t.Context(), fga.CaptureTuples(id, uuid.NewString(), organization, owner), nil); err != nil {
		t.Fatal(err)
	}
	return id
}

// unfilled admits n archives without putting their objects, which signing does
// not look at: a hundred uploads would take most of a test's time. The tuples go
// by the hundred, too. The keys are "0", "1" and so on.
func (s *stack) unfilled(t testing.TB, n int, organization, owner string) []string {
	t.Helper()
	var ids []string
	var tuples []fga.Tuple
	for i := range n {
		id := uuid.NewString()
		ids = append(ids, id)
		s.ledger.put(&ledgerpb.LookupArchiveResponse{ArchiveId: id, Bucket: s.bucket.Bucket, ObjectKey: strconv.Itoa(i)})
		tuples = append(tuples, fga.CaptureTuples(id, uuid.NewString(), organization, owner)...)
	}
	for request := range slices.Chunk(tuples, 99) {
		if err := s.tuples.Write(t.Context(), request, nil); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// ledger answers LookupArchive and nothing else.
type ledger struct {
	ledgerpb.UnimplementedRegistryServiceServer

	address string

	mu       sync.Mutex
	archives map[string]*ledgerpb.LookupArchiveResponse
}

func startLedger(t testing.TB, tls grpcx.TLSFiles) *ledger {
	t.Helper()
	l := &ledger{address: testkit.FreeAddress(t), archives: map[string]*ledgerpb.LookupArchiveResponse{}}
	srv, err := grpcx.NewServer(grpcx.ServerSettings{
		Address: l.address, TLS: tls,
		Callers:          grpcx.Callers{ledgerpb.RegistryService_LookupArchive_FullMethodName: {"signer"}},
		MaxConnectionAge: time.Minute, ShutdownTimeout: time.Second,
	}, prometheus.NewRegistry(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ledgerpb.RegisterRegistryServiceServer(srv, l)
	inBackground(t, "the ledger", srv.Run)
	return l
}

func (l *ledger) put(a *ledgerpb.LookupArchiveResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.archives[a.GetArchiveId()] = a
}

func (l *ledger) remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.archives, id)
}

func (l *ledger) LookupArchive(_ context.Context, req *ledgerpb.LookupArchiveRequest) (*ledgerpb.LookupArchiveResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a, known := l.archives[req.GetArchiveId()]; known {
		return a, nil
	}
	return nil, rpcerr.NotFound(nil)
}

// inBackground runs work until the test ends and reports its error.
func inBackground(t testing.TB, what string, work func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
}

func secretFile(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

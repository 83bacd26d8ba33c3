package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/muniment/muniment/pkg/identity"
	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	signerv1 "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
)

// shapes returns the descriptors of testdata/shapes.txtpb, changed by change.
func shapes(t testing.TB, change func(*descriptorpb.FileDescriptorProto)) protoreflect.ServiceDescriptor {
	t.Helper()
	text, err := os.ReadFile("testdata/shapes.txtpb")
	require.NoError(t, err)
	var file descriptorpb.FileDescriptorProto
	require.NoError(t, prototext.Unmarshal(text, &file))
	if change != nil {
		change(&file)
	}
	built, err := protodesc.NewFile(&file, protoregistry.GlobalFiles)
	require.NoError(t, err)
	return built.Services().Get(0)
}

// backend is the far end of the gateway's calls. It answers with reply (JSON of
// the method's output) or with err, and keeps what it was asked.
type backend struct {
	t testing.TB

	mu      sync.Mutex
	method  string
	request proto.Message
	sent    metadata.MD
	calls   int

	reply string
	err   error
	wait  chan struct{}
}

func (b *backend) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	b.mu.Lock()
	b.calls++
	b.method = method
	request, ok := args.(proto.Message)
	require.True(b.t, ok)
	b.request = proto.Clone(request)
	b.sent, _ = metadata.FromOutgoingContext(ctx)
	b.mu.Unlock()
	// What the wire could not carry must not get here.
	_, err := proto.Marshal(request)
	require.NoError(b.t, err)
	if b.wait != nil {
		select {
		case <-b.wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if b.err != nil {
		return b.err
	}
	if b.reply != "" {
		message, ok := reply.(proto.Message)
		require.True(b.t, ok)
		require.NoError(b.t, protojson.Unmarshal([]byte(b.reply), message))
	}
	return nil
}

func (b *backend) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("no streams here")
}

// asked returns the last request as protobuf's own JSON.
func (b *backend) asked() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.request == nil {
		return ""
	}
	out, err := protojson.Marshal(b.request)
	require.NoError(b.t, err)
	var compact map[string]any
	require.NoError(b.t, json.Unmarshal(out, &compact))
	out, err = json.Marshal(compact)
	require.NoError(b.t, err)
	return string(out)
}

func (b *backend) callCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

// anyBearer takes everybody who shows anything.
type anyBearer struct{}

func (anyBearer) Verify(_ context.Context, c identity.Credentials) (identity.Identity, error) {
	if c.Authorization == "" && c.DevSubject == "" {
		return identity.Identity{}, errors.New("the log's reason")
	}
	return identity.Identity{Subject: "alice"}, nil
}

type bundle struct {
	*backend
	gateway *Gateway
	logs    *observer.ObservedLogs
}

func setup(t testing.TB, plain ...Plain) *bundle {
	t.Helper()
	b := &backend{t: t}
	core, logs := observer.New(zap.DebugLevel)
	g, err := New([]Backend{
		{Name: "orders", Conn: b, Services: []protoreflect.ServiceDescriptor{shapes(t, nil)}},
		{Name: "ledger", Conn: b, Services: []protoreflect.ServiceDescriptor{
			ledgerv1.File_muniment_ledger_v1_archives_proto.Services().ByName("ArchiveService"),
			ledgerv1.File_muniment_ledger_v1_crawls_proto.Services().ByName("CrawlService"),
		}},
		{Name: "signer", Conn: b, Services: []protoreflect.ServiceDescriptor{
			signerv1.File_muniment_signer_v1_signer_proto.Services().ByName("SignerService"),
		}},
		{Name: "feed-archiver", Conn: b, Services: []protoreflect.ServiceDescriptor{
			feedarchiverv1.File_muniment_feedarchiver_v1_archive_proto.Services().ByName("AsIssuedService"),
		}},
	}, plain, anyBearer{}, Settings{RequestTimeout: 10 * time.Second, DrainDelay: 10 * time.Millisecond, ShutdownTimeout: 5 * time.Second}, prometheus.NewRegistry(), zap.New(core))
	require.NoError(t, err)
	return &bundle{backend: b, gateway: g, logs: logs}
}

// do sends one request with a token; target is sent exactly as it is spelled.
func (b *bundle) do(method, target, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(context.Background(), method, "http://gateway"+target, reader)
	r.Header.Set("Authorization", "Bearer token")
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	b.gateway.ServeHTTP(w, r)
	return w
}

func anonymous(r *http.Request) { r.Header.Del("Authorization") }

// errorOf returns the error of a reply, which must be of the contract's form.
func errorOf(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var body map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body.String())
	text, ok := body["error"].(string)
	require.True(t, ok, w.Body.String())
	require.True(t, strings.HasPrefix(w.Body.String(), `{"error":`), "error comes first: %s", w.Body.String())
	return text
}

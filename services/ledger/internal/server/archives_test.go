package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/devissuer"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/identity"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/gateway"
	"github.com/muniment/muniment/services/ledger/internal/listing"
	"github.com/muniment/muniment/services/ledger/internal/server"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// site is the ledger's reading half as callers meet it: the real gateway, mutual
// TLS, tokens of an issuer, Postgres and OpenFGA.
type site struct {
	url    string
	issuer *devissuer.Issuer
	engine *fga.Client
	add    func(id uuid.UUID, capturedAt time.Time)
}

func newSite(t *testing.T) *site {
	t.Helper()
	db, openfga, certs, issuer := testkit.Postgres(t), testkit.OpenFGA(t), testkit.Certificates(t), testkit.Issuer(t)
	engine, err := fga.New(config.OpenFGA{APIURL: openfga.APIURL, StoreID: openfga.StoreID, ModelID: openfga.ModelID, Timeout: 30 * time.Second}, time.Now)
	require.NoError(t, err)
	pool := db.Pool(t, "ledger")
	rows := store.New(pool)
	log := zap.NewNop()
	verifier, err := identity.New(identity.Settings{
		IssuerURL: issuer.URL, Audience: "muniment", Algorithms: []string{"ES256"}, Leeway: 30 * time.Second, OrganizationsClaim: "organizations",
	}, nil, log, time.Now)
	require.NoError(t, err)

	address := testkit.FreeAddress(t)
	archives := ledgerv1.File_muniment_ledger_v1_archives_proto.Services().ByName("ArchiveService")
	crawls := ledgerv1.File_muniment_ledger_v1_crawls_proto.Services().ByName("CrawlService")
	callers := grpcx.Callers{
		ledgerv1.ArchiveService_ListArchives_FullMethodName: {"ledger"},
		ledgerv1.ArchiveService_GetArchive_FullMethodName:   {"ledger"},
		ledgerv1.CrawlService_GetMe_FullMethodName:          {"ledger"},
	}
	srv, err := grpcx.NewServer(grpcx.ServerSettings{
		Address: address, TLS: certs.Files("ledger"), Callers: callers, MaxConnectionAge: time.Minute, ShutdownTimeout: 5 * time.Second,
		Authenticate: identity.Authenticate(verifier, nil, "ledger"),
	}, prometheus.NewRegistry(), log)
	require.NoError(t, err)
	ledgerv1.RegisterArchiveServiceServer(srv, server.NewArchives(rows, listing.New(rows, engine, time.Now), engine, time.Now))
	ledgerv1.RegisterCrawlServiceServer(srv, server.NewCrawls(rows, nil, engine, time.Now))
	conn, err := grpcx.Dial(address, "ledger", certs.Files("ledger"))
	require.NoError(t, err)
	gw, err := gateway.New([]gateway.Backend{{Name: "ledger", Conn: conn, Services: []protoreflect.ServiceDescriptor{archives, crawls}}},
		nil, verifier, gateway.Settings{RequestTimeout: time.Minute, ShutdownTimeout: 5 * time.Second}, prometheus.NewRegistry(), log)
	require.NoError(t, err)
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- srv.Run(ctx) }()
	go func() { ended <- gw.Serve(ctx, lis) }()
	t.Cleanup(func() {
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		_ = conn.Close()
	})
	return &site{url: "http://" + lis.Addr().String(), issuer: issuer, engine: engine, add: func(id uuid.UUID, capturedAt time.Time) {
		t.Helper()
		_, err := pool.Exec(t.Context(), `INSERT INTO archives (id, task_id, bucket, object_key, source_url, labels, captured_at, object_etag, object_size)
			VALUES ($1, $1, 'browserhive', $2, 'http://a.example/', '{news}', $3, 'etag', 1)`, id, "key/"+id.String(), capturedAt)
		require.NoError(t, err)
	}}
}

// get asks as somebody; nobody is "".
func (s *site) get(t *testing.T, subject, organizations, path string) (status int, body string, header http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, http.NoBody)
	require.NoError(t, err)
	if subject != "" {
		req.Header.Set("Authorization", "Bearer "+s.issuer.Token(subject, strings.Split(organizations, ",")...))
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(content), resp.Header
}

func TestArchivesOverTheGateway(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id, other := uuid.New(), uuid.New()
	at := time.Date(2026, 11, 30, 17, 0, 0, 123456000, time.UTC)
	s.add(id, at)
	s.add(other, at.Add(-time.Hour))
	require.NoError(t, s.engine.Write(t.Context(), fga.CaptureTuples(id.String(), uuid.NewString(), "acme", "alice"), nil))
	require.NoError(t, s.engine.Write(t.Context(), fga.CaptureTuples(other.String(), uuid.NewString(), "beta", "bob"), nil))
	row := fmt.Sprintf(`{"id":%q,"taskId":%q,"sourceUrl":"http://a.example/","labels":["news"],"waczComplete":null,"signed":null,"capturedAt":"2026-11-30T17:00:00.123456Z","objectKey":%q,"fixity":null,"distanceSeconds":null}`, id, id, "key/"+id.String())

	t.Run("list", func(t *testing.T) {
		t.Parallel()
		status, body, _ := s.get(t, "carol", "acme", "/api/archives")
		require.Equal(t, 200, status, body)
		require.JSONEq(t, `{"archives":[`+row+`],"nextPageToken":null}`, body)
	})
	t.Run("another organization sees nothing of it", func(t *testing.T) {
		t.Parallel()
		status, body, _ := s.get(t, "mallory", "gamma", "/api/archives")
		require.Equal(t, 200, status, body)
		require.JSONEq(t, `{"archives":[],"nextPageToken":null}`, body)
	})
	t.Run("T51 bad organizations beside a good one", func(t *testing.T) {
		t.Parallel()
		_, body, _ := s.get(t, "carol", "acme,be ta,*,x#member", "/api/archives")
		require.JSONEq(t, `{"archives":[`+row+`],"nextPageToken":null}`, body)
	})
	t.Run("get", func(t *testing.T) {
		t.Parallel()
		status, body, _ := s.get(t, "alice", "gamma", "/api/archives/"+strings.ToUpper(id.String()))
		require.Equal(t, 200, status, body)
		require.JSONEq(t, row, body)
	})
	t.Run("not allowed and not there are one answer", func(t *testing.T) {
		t.Parallel()
		forbidden, forbiddenBody, forbiddenHeader := s.get(t, "mallory", "gamma", "/api/archives/"+id.String())
		missing, missingBody, missingHeader := s.get(t, "mallory", "gamma", "/api/archives/"+uuid.NewString())
		require.Equal(t, 404, forbidden)
		require.Equal(t, forbidden, missing)
		require.JSONEq(t, `{"error":"not found"}`, forbiddenBody)
		require.Equal(t, forbiddenBody, missingBody)
		for _, h := range []http.Header{forbiddenHeader, missingHeader} {
			h.Del("X-Request-ID")
			h.Del("Date")
		}
		require.Equal(t, forbiddenHeader, missingHeader)
	})
	t.Run("nobody", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"/api/archives", "/api/archives/" + id.String(), "/api/archives/nonsense", "/api/me"} {
			status, body, header := s.get(t, "", "", path)
			require.Equal(t, 401, status)
			require.JSONEq(t, `{"error":"unauthenticated"}`, body)
			require.NotEmpty(t, header.Get("X-Request-ID"))
		}
	})
	t.Run("shape", func(t *testing.T) {
		t.Parallel()
		for path, field := range map[string]string{
			"/api/archives?pageSize=0": "pageSize", "/api/archives?pageSize=201": "pageSize", "/api/archives?pageSize=x": "pageSize",
			"/api/archives?pageToken=nonsense": "pageToken", "/api/archives?before=x": "before", "/api/archives/nonsense": "archiveId",
		} {
			status, body, _ := s.get(t, "alice", "acme", path)
			require.Equal(t, 400, status, path)
			var told struct {
				Error string `json:"error"`
			}
			require.NoError(t, json.Unmarshal([]byte(body), &told))
			require.True(t, strings.HasPrefix(told.Error, field+": "), body)
		}
	})
	t.Run("before is exclusive", func(t *testing.T) {
		t.Parallel()
		_, body, _ := s.get(t, "alice", "acme", "/api/archives?before=2026-11-30T17:00:00.123456Z")
		require.JSONEq(t, `{"archives":[],"nextPageToken":null}`, body)
		_, body, _ = s.get(t, "alice", "acme", "/api/archives?before=2026-11-30T18:00:00.123457%2B01:00")
		require.JSONEq(t, `{"archives":[`+row+`],"nextPageToken":null}`, body)
	})
}

func TestMe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.NoError(t, s.engine.Write(t.Context(), []fga.Tuple{
		{User: fga.User("alice"), Relation: "submitter", Object: fga.Organization("acme")},
		{User: fga.User("alice"), Relation: "submitter", Object: fga.Organization("foreign")},
	}, nil))
	status, body, _ := s.get(t, "alice", "beta,acme", "/api/me")
	require.Equal(t, 200, status, body)
	require.JSONEq(t, `{"subject":"alice","organizations":["beta","acme"],"canSubmit":true,"submitTo":["acme"]}`, body)
	_, body, _ = s.get(t, "bob", "acme", "/api/me")
	require.JSONEq(t, `{"subject":"bob","organizations":["acme"],"canSubmit":false,"submitTo":[]}`, body)
}

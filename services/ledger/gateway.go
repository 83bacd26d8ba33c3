package main

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/identity"
	"github.com/muniment/muniment/pkg/objstore"
	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	signerv1 "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
	"github.com/muniment/muniment/services/ledger/internal/crawl"
	"github.com/muniment/muniment/services/ledger/internal/gateway"
	"github.com/muniment/muniment/services/ledger/internal/sink"
)

// httpSide is the gateway with the connections behind it.
type httpSide struct {
	*gateway.Gateway
	conns []*grpc.ClientConn
}

func (h *httpSide) close() {
	for _, c := range h.conns {
		_ = c.Close()
	}
}

func (s *settings) tls() grpcx.TLSFiles {
	return grpcx.TLSFiles{Cert: s.TLSCertFile, Key: s.TLSKeyFile, CA: s.TLSCAFile}
}

// newGateway puts the gateway in front of this process's own services, of those
// whose address is set, and of the sink.
func newGateway(cfg settings, artifacts *crawl.Artifacts, tokens sink.Tokens, verifier *identity.Verifier, reg prometheus.Registerer, log *zap.Logger) (*httpSide, error) {
	own, err := ownAddress(cfg.GRPCAddress)
	if err != nil {
		return nil, err
	}
	h := &httpSide{}
	var backends []gateway.Backend
	for _, b := range []struct {
		name, address string
		services      []protoreflect.ServiceDescriptor
	}{
		{"ledger", own, []protoreflect.ServiceDescriptor{
			ledgerv1.File_muniment_ledger_v1_crawls_proto.Services().ByName("CrawlService"),
			ledgerv1.File_muniment_ledger_v1_archives_proto.Services().ByName("ArchiveService"),
			ledgerv1.File_muniment_ledger_v1_sharing_proto.Services().ByName("SharingService"),
			ledgerv1.File_muniment_ledger_v1_targets_proto.Services().ByName("TargetService"),
		}},
		{"signer", cfg.SignerAddress, []protoreflect.ServiceDescriptor{signerv1.File_muniment_signer_v1_signer_proto.Services().ByName("SignerService")}},
		{"feed-archiver", cfg.FeedAddress, []protoreflect.ServiceDescriptor{feedarchiverv1.File_muniment_feedarchiver_v1_archive_proto.Services().ByName("AsIssuedService")}},
	} {
		if b.address == "" {
			continue
		}
		conn, err := grpcx.Dial(b.address, b.name, cfg.tls())
		if err != nil {
			h.close()
			return nil, err
		}
		h.conns = append(h.conns, conn)
		backends = append(backends, gateway.Backend{Name: b.name, Conn: conn, Services: b.services})
	}
	var plain []gateway.Plain
	if cfg.SinkOrigin != "" {
		s3, err := objstore.NewS3(cfg.Store)
		if err != nil {
			h.close()
			return nil, err
		}
		plain = append(plain, gateway.Plain{Method: http.MethodPut, Path: "/api/sink/{crawlId}/{filename}", Handler: sink.New(
			artifacts, &minio.Core{Client: s3}, tokens, sink.Settings{Bucket: cfg.Bucket, Uploads: cfg.SinkUploads, Timeout: cfg.SinkTimeout}, reg, log, time.Now)})
	}
	h.Gateway, err = gateway.New(backends, plain, verifier, gateway.Settings{
		Address: cfg.HTTPAddress, RequestTimeout: cfg.RequestTimeout, DrainDelay: cfg.DrainDelay, ShutdownTimeout: cfg.ShutdownTimeout / 2,
	}, reg, log)
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// ownAddress is where this process reaches its own gRPC server, whatever
// interfaces it listens on.
func ownAddress(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("%sGRPC_ADDRESS must be host:port", prefix)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// Package server answers who asks for URLs. What stands in an answer was
// allowed by the authorization engine just before, and is on record.
package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/identity"
	ledgerpb "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	signerpb "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/services/signer/internal/presign"
	"github.com/muniment/muniment/services/signer/internal/store"
)

// The service's dependencies, as far as it uses them.
type (
	registry interface {
		LookupArchive(ctx context.Context, in *ledgerpb.LookupArchiveRequest, opts ...grpc.CallOption) (*ledgerpb.LookupArchiveResponse, error)
	}
	engine interface {
		Check(ctx context.Context, q fga.Query) (bool, error)
		BatchCheck(ctx context.Context, queries []fga.Query) ([]bool, error)
	}
	presigner interface {
		Sign(o presign.Object) (presign.URL, error)
	}
	record interface {
		Record(ctx context.Context, call store.Call, issued []store.Issued) error
	}
)

// Server is the SignerService.
type Server struct {
	signerpb.UnimplementedSignerServiceServer

	registry  registry
	engine    engine
	presigner presigner
	record    record
	log       *zap.Logger
	now       func() time.Time

	issued   prometheus.Counter
	refusals *prometheus.CounterVec
}

// New returns the service.
func New(registry registry, engine engine, presigner presigner, record record, metrics prometheus.Registerer, log *zap.Logger, now func() time.Time) *Server {
	s := &Server{
		registry: registry, engine: engine, presigner: presigner, record: record, log: log, now: now,
		issued: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muniment_signer_urls_issued_total",
			Help: "URLs given out.",
		}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muniment_signer_refusals_total",
			Help: "Archives for which no URL was given: not_allowed, or unknown (no such archive, or deleted). The caller is not told which.",
		}, []string{"reason"}),
	}
	metrics.MustRegister(s.issued, s.refusals)
	return s
}

// caller is who asks: the end user, and the certificate the call came through.
type caller struct {
	identity.Identity
	through string
}

func callerOf(ctx context.Context) (caller, error) {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return caller{}, rpcerr.Unauthenticated(errors.New("the call carries no identity"))
	}
	// A certificate may carry one name twice, as URI and as DNS name.
	names := slices.Compact(slices.Sorted(slices.Values(grpcx.Peers(ctx))))
	return caller{Identity: id, through: strings.Join(names, ",")}, nil
}

func (s *Server) canView(who caller, archiveID string, at time.Time) fga.Query {
	return fga.Query{
		Subject: who.Subject, Organizations: who.Organizations,
		Relation: "can_view", Object: fga.Archive(archiveID), At: at,
		HighConsistency: true,
	}
}

// lookup asks the ledger where an archive is; nil when there is none.
func (s *Server) lookup(ctx context.Context, archiveID string) (*ledgerpb.LookupArchiveResponse, error) {
	found, err := s.registry.LookupArchive(ctx, &ledgerpb.LookupArchiveRequest{ArchiveId: archiveID})
	switch status.Code(err) {
	case codes.OK:
		return found, nil
	case codes.NotFound:
		return nil, nil //nolint:nilnil // absent is an answer here
	case codes.Unavailable, codes.DeadlineExceeded:
		return nil, rpcerr.Unavailable("ledger", rpcerr.RetryAfter(err), err)
	case codes.Canceled:
		return nil, fmt.Errorf("asking the ledger: %w", context.Canceled)
	}
	return nil, rpcerr.Internal(fmt.Errorf("asking the ledger: %w", err))
}

// sign makes the URL and its row.
func (s *Server) sign(found *ledgerpb.LookupArchiveResponse) (presign.URL, store.Issued, error) {
	id, err := uuid.Parse(found.GetArchiveId())
	if err != nil {
		return presign.URL{}, store.Issued{}, rpcerr.Internal(fmt.Errorf("the ledger's archive id: %w", err))
	}
	url, err := s.presigner.Sign(presign.Object{Bucket: found.GetBucket(), Key: found.GetObjectKey(), VersionID: found.GetVersionId()})
	switch {
	case errors.Is(err, presign.ErrNoCredentials):
		return presign.URL{}, store.Issued{}, rpcerr.Unavailable("object store's credentials", retryCredentials, err)
	case err != nil:
		return presign.URL{}, store.Issued{}, rpcerr.Internal(fmt.Errorf("signing: %w", err))
	}
	return url, store.Issued{ArchiveID: id, VersionID: found.GetVersionId(), IssuedAt: url.IssuedAt, ExpiresAt: url.ExpiresAt}, nil
}

// retryCredentials is when renewed credentials may have been read.
const retryCredentials = 10 * time.Second

// commit records URLs; only then may they leave.
func (s *Server) commit(ctx context.Context, who caller, issued []store.Issued) error {
	call := store.Call{
		Subject: who.Subject, Organizations: who.Organizations,
		Caller: who.through, RequestID: telemetry.RequestID(ctx),
	}
	if err := s.record.Record(ctx, call, issued); err != nil {
		if errors.Is(err, rpcerr.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			return rpcerr.Unavailable("database", 0, err)
		}
		return err
	}
	s.issued.Add(float64(len(issued)))
	return nil
}

// refuse counts and logs a refusal; it is not stored, and the caller is not
// told its reason.
func (s *Server) refuse(ctx context.Context, who caller, archiveID, reason string) {
	s.refusals.WithLabelValues(reason).Inc()
	telemetry.Log(ctx, s.log).Info("no URL given", zap.String("reason", reason),
		zap.String("archive_id", archiveID), zap.String("subject", who.Subject), zap.String("caller", who.through))
}

// reason says why there is no URL; "" where there may be one.
func reason(found *ledgerpb.LookupArchiveResponse, allowed bool) string {
	switch {
	case found == nil:
		return "unknown"
	case !allowed:
		return "not_allowed"
	}
	return ""
}

func seconds(u presign.URL) int64 { return int64(u.ExpiresAt.Sub(u.IssuedAt) / time.Second) }

// Package server answers the feed archiver's calls, one file for each. It holds
// no SQL and knows no feed: it checks, converts, asks, and converts back.
package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/muniment/muniment/pkg/grpcx"
	feedarchiverv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/poll"
	"github.com/muniment/muniment/services/feed-archiver/internal/rights"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// Settings are the server's own.
type Settings struct {
	// Pushers are the systems that may hand in what they read, and the sources
	// granted to each: "name=source,source;other=source", where a name is that of
	// a certificate.
	Pushers Grants `env:"PUSHERS"`
	// MaxPushBytes bounds the items of one pushed read.
	MaxPushBytes int64 `env:"MAX_PUSH_BYTES" envDefault:"134217728"`
}

// Validate checks what the fields cannot say alone.
func (s Settings) Validate(prefix string) error {
	if s.MaxPushBytes < 1 {
		return fmt.Errorf("%sMAX_PUSH_BYTES (%d) must be positive", prefix, s.MaxPushBytes)
	}
	return nil
}

// Grants map a pusher's name to the sources that it may write.
type Grants map[string][]string

// UnmarshalText reads the form that Settings.Pushers describes.
func (g *Grants) UnmarshalText(text []byte) error {
	*g = make(Grants)
	for entry := range strings.SplitSeq(string(text), ";") {
		name, list, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok || name == "" || list == "" {
			return fmt.Errorf("%q is not name=source,source", entry)
		}
		(*g)[name] = strings.Split(list, ",")
	}
	return nil
}

// Server implements the three services.
type Server struct {
	feedarchiverv1.UnimplementedFeedServiceServer
	feedarchiverv1.UnimplementedRecordServiceServer
	feedarchiverv1.UnimplementedAsIssuedServiceServer

	poller   *poll.Poller
	writer   *archive.Writer
	store    *store.Store
	rights   rights.Register
	settings Settings
}

// New makes a server.
func New(poller *poll.Poller, writer *archive.Writer, s *store.Store, register rights.Register, settings Settings) *Server {
	return &Server{poller: poller, writer: writer, store: s, rights: register, settings: settings}
}

// Callers says who may call what: the operator runs feeds, the ledger hosts the
// gateway for the public reads, and pushers push.
func (s *Server) Callers() grpcx.Callers {
	pushers := make([]string, 0, len(s.settings.Pushers))
	for name := range s.settings.Pushers {
		pushers = append(pushers, name)
	}
	readers := []string{"ledger", "operator"}
	return grpcx.Callers{
		feedarchiverv1.FeedService_ReadFeed_FullMethodName:           {"operator"},
		feedarchiverv1.FeedService_ListFeeds_FullMethodName:          {"operator"},
		feedarchiverv1.RecordService_RecordRead_FullMethodName:       pushers,
		feedarchiverv1.RecordService_RecordFailedRead_FullMethodName: pushers,
		feedarchiverv1.AsIssuedService_GetProduct_FullMethodName:     readers,
		feedarchiverv1.AsIssuedService_GetProductBody_FullMethodName: readers,
		feedarchiverv1.AsIssuedService_ListVersions_FullMethodName:   readers,
		feedarchiverv1.AsIssuedService_ListPolls_FullMethodName:      readers,
		feedarchiverv1.AsIssuedService_GetAsOf_FullMethodName:        readers,
		feedarchiverv1.AsIssuedService_GetDiff_FullMethodName:        readers,
		feedarchiverv1.AsIssuedService_GetContinuity_FullMethodName:  readers,
	}
}

// granted says whether one of the caller's identities may write the source.
func (s *Server) granted(ctx context.Context, source string) bool {
	for _, peer := range grpcx.Peers(ctx) {
		if slices.Contains(s.settings.Pushers[peer], source) {
			return true
		}
	}
	return false
}

// named refuses a text that no row holds: NUL can stand in a text of a message,
// and not in one of the database.
func named(field, text string) error {
	if strings.IndexByte(text, 0) >= 0 {
		return rpcerr.Invalid(field, "must not hold NUL")
	}
	return nil
}

// timed refuses a timestamp that is there and that no calendar has.
func timed(field string, t *timestamppb.Timestamp) error {
	if t != nil && !t.IsValid() {
		return rpcerr.Invalid(field, "is not a time")
	}
	return nil
}

// stamp converts a time; nil stays absent.
func stamp(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

// defaultPage is a page's size when nobody asked for one.
const defaultPage = 100

func pageSize(asked *int32) int {
	if asked == nil {
		return defaultPage
	}
	return int(*asked)
}

// pageToken spells where a page ended; it means something to this server only.
func pageToken(parts ...int64) string {
	words := make([]string, len(parts))
	for i, p := range parts {
		words[i] = strconv.FormatInt(p, 36)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(words, ".")))
}

// parsePageToken reads a token of n parts.
func parsePageToken(token string, n int) ([]int64, error) {
	bad := rpcerr.Invalid("pageToken", "is not a token of this list")
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, bad
	}
	words := strings.Split(string(text), ".")
	if len(words) != n {
		return nil, bad
	}
	parts := make([]int64, n)
	for i, w := range words {
		if parts[i], err = strconv.ParseInt(w, 36, 64); err != nil {
			return nil, bad
		}
	}
	return parts, nil
}

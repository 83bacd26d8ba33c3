// Package crawl is the ledger's policy of crawls: which pages are inside, how
// many are taken, when a crawl ends, and what a level's report means. Windmill
// runs one level and reports; it decides nothing of this.
package crawl

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/muniment/muniment/services/ledger/internal/admission"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// crawls is what the policy asks of the ledger's tables.
type crawls interface {
	Crawl(ctx context.Context, id uuid.UUID) (store.Crawl, error)
	EnabledTargets(ctx context.Context, org string, limit int32) ([]string, error)
	FinishLevel(ctx context.Context, r store.LevelReport) (store.LevelReply, error)
	KnownPages(ctx context.Context, crawl uuid.UUID) (map[[32]byte]struct{}, error)
	Level(ctx context.Context, crawl uuid.UUID, depth int32) (store.Level, error)
	RecordSubmissions(ctx context.Context, crawl store.Crawl, submissions []store.NewSubmission) error
	StartCrawl(ctx context.Context, c store.Crawl, seeds []store.Page, deadline time.Time) error
	StoredReply(ctx context.Context, level store.Level) (*store.LevelReply, error)
}

// admitter admits what a level captured.
type admitter interface {
	Level(ctx context.Context, tasks []uuid.UUID) (map[uuid.UUID]admission.Said, error)
}

// objects reads links files.
type objects interface {
	Read(ctx context.Context, bucket, key string, limit int64) ([]byte, error)
}

// Deadline says by when a level must have been reported: Base, and for each page
// the crawl's own spacing and PerPage. That is enough for one browser that takes
// all pages of one host one after the other.
type Deadline struct {
	Base    time.Duration
	PerPage time.Duration
}

func (d Deadline) of(now time.Time, pages int, spacingMS int32) time.Time {
	perPage := d.PerPage + time.Duration(spacingMS)*time.Millisecond
	return now.Add(d.Base + time.Duration(pages)*perPage)
}

// Settings of crawls.
type Settings struct {
	// Bucket is where BrowserHive writes: locations elsewhere are not read.
	Bucket   string
	Deadline Deadline
	// Sink says that artifacts come through the sink: crawls get a prefix.
	Sink bool
	// LinksConcurrency is how many links files are read at once (each may take
	// 32 MiB), LinksTimeout the limit of each, and LevelTimeout that of all of a
	// level's: what is not read by then has no links.
	LinksConcurrency int
	LinksTimeout     time.Duration
	LevelTimeout     time.Duration
}

// Service starts crawls and takes their reports.
type Service struct {
	crawls   crawls
	admitter admitter
	objects  objects
	// dispatch is told that a level waits; it must not block.
	dispatch func()
	settings Settings
	log      *zap.Logger
	now      func() time.Time
}

// New returns the service.
func New(c crawls, a admitter, o objects, dispatch func(), settings Settings, log *zap.Logger, now func() time.Time) *Service {
	return &Service{crawls: c, admitter: a, objects: o, dispatch: dispatch, settings: settings, log: log, now: now}
}

// clock is now as the database keeps it.
func (s *Service) clock() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

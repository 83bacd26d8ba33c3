package crawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/muniment/muniment/services/ledger/internal/store"
)

// The defaults of a crawl.
const (
	defaultMaxDepth        = 2
	defaultMaxPages        = 30
	defaultPerHostDelayMS  = 2000
	defaultHostParallelism = 4
	maxPages               = 10000
)

// ErrNoTargets says that the organization has no enabled target.
var ErrNoTargets = errors.New("the organization has no enabled target")

// SeedError says which seed is none, and why.
type SeedError struct {
	Index int
	Rule  string
}

func (e *SeedError) Error() string { return fmt.Sprintf("seeds[%d]: %s", e.Index, e.Rule) }

// Order is a crawl to start. What is nil takes its default.
type Order struct {
	OrgID string
	// SubmittedBy is nil where a service asked.
	SubmittedBy *string
	// Seeds are URLs; with FromTargets they are the organization's enabled
	// targets instead, at most TargetLimit.
	Seeds       []string
	FromTargets bool
	TargetLimit *int32

	Scope           *string
	MaxDepth        *int32
	MaxPages        *int32
	PerHostDelayMS  *int32
	HostParallelism *int32
}

// CheckSeeds refuses seeds of which one is bad, before anything is looked up.
func CheckSeeds(seeds []string) error {
	_, err := parseSeeds(seeds)
	return err
}

func parseSeeds(seeds []string) ([]pageURL, error) {
	urls := make([]pageURL, len(seeds))
	for i, seed := range seeds {
		u, err := parseURL(seed)
		if err != nil {
			return nil, &SeedError{Index: i, Rule: err.Error()}
		}
		urls[i] = u
	}
	return urls, nil
}

// Start writes a crawl and its first level, which is then dispatched by
// whichever replica comes first. It returns a *store.RunningError while another
// crawl is in progress.
func (s *Service) Start(ctx context.Context, order Order) (uuid.UUID, error) {
	seeds := order.Seeds
	if order.FromTargets {
		var err error
		if seeds, err = s.crawls.EnabledTargets(ctx, order.OrgID, or(order.TargetLimit, maxPages)); err != nil {
			return uuid.Nil, err
		}
		if len(seeds) == 0 {
			return uuid.Nil, ErrNoTargets
		}
	}
	urls, err := parseSeeds(seeds)
	if err != nil {
		return uuid.Nil, err
	}
	c, pages := s.plan(order, urls)
	if err := s.crawls.StartCrawl(ctx, c, pages, s.settings.Deadline.of(c.StartedAt, len(pages), c.PerHostDelayMs)); err != nil {
		return uuid.Nil, err
	}
	s.dispatch()
	return c.ID, nil
}

// plan fills in the defaults and takes as many different seeds as the budget
// lets in: max_pages counts seeds.
func (s *Service) plan(order Order, urls []pageURL) (store.Crawl, []store.Page) {
	inside := newScope(or(order.Scope, SameOrigin), nil)
	all := frontier{known: make(map[[32]byte]struct{}, len(urls)), budget: len(urls)}
	for _, u := range urls {
		all.take(u)
		inside.add(u)
	}
	depth := int32(defaultMaxDepth)
	if order.FromTargets {
		depth = 0
	}
	c := store.Crawl{
		ID: uuid.New(), OrgID: order.OrgID, SubmittedBy: order.SubmittedBy,
		Scope: inside.kind, ScopeKeys: inside.list(), MaxDepth: or(order.MaxDepth, depth),
		MaxPages:       or(order.MaxPages, max(defaultMaxPages, int32(len(all.next)))),
		PerHostDelayMs: or(order.PerHostDelayMS, defaultPerHostDelayMS), HostParallelism: or(order.HostParallelism, defaultHostParallelism),
		StartedAt: s.clock(),
	}
	pages := all.next
	for _, page := range pages {
		c.Seeds = append(c.Seeds, page.URL)
	}
	if len(pages) > int(c.MaxPages) {
		pages = pages[:c.MaxPages]
		hit := store.StopMaxPages
		c.LimitHit = &hit
	}
	if s.settings.Sink {
		prefix := "org/" + c.OrgID + "/" + c.StartedAt.Format("2006-01") + "/"
		c.SinkPrefix = &prefix
	}
	return c, pages
}

func or[T any](value *T, fallback T) T {
	if value == nil {
		return fallback
	}
	return *value
}

package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/objstore"
	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// explore reads the links of the captured pages and fills in what may come
// next. Links are looked at in the order in which pages were reported, a few
// files at a time, so that two reports of one level find the same and memory
// stays bounded whatever the pages hold.
func (s *Service) explore(ctx context.Context, c store.Crawl, pages []page, report *store.LevelReport) error {
	report.ScopeKeys = c.ScopeKeys
	if c.State != store.StateRunning {
		return nil
	}
	inside := newScope(c.Scope, c.ScopeKeys)
	atEnd := report.Depth >= c.MaxDepth
	if atEnd {
		hit := store.StopMaxDepth
		report.LimitHit = &hit
	}
	var sources []*page
	for i := range pages {
		if pages[i].State == captured && pages[i].linksLocation != nil {
			sources = append(sources, &pages[i])
		}
	}
	next := frontier{budget: int(int64(c.MaxPages) - c.PagesDiscovered)}
	if !atEnd && len(sources) > 0 {
		var err error
		if next.known, err = s.crawls.KnownPages(ctx, c.ID); err != nil {
			return err
		}
	}
	err := s.eachLinks(ctx, sources, func(p *page, f found) {
		final := f.final.text // its address alone would keep all of f
		p.FinalURL = &final
		if report.Depth == 0 {
			inside.add(f.final)
		}
		if !atEnd && inside.holds(f.final) {
			follow(&next, inside, f.hrefs)
		}
	})
	if err != nil {
		return err
	}
	if next.over {
		hit := store.StopMaxPages
		report.LimitHit = &hit
	}
	report.Next, report.ScopeKeys = next.next, inside.list()
	return nil
}

// eachLinks reads the links files of pages, in their order and within the
// level's time, and hands those that could be read to visit.
func (s *Service) eachLinks(ctx context.Context, pages []*page, visit func(*page, found)) error {
	reading, cancel := context.WithTimeout(ctx, s.settings.LevelTimeout)
	defer cancel()
	unanswered := 0
	for chunk := range slices.Chunk(pages, s.settings.LinksConcurrency) {
		found := s.readLinks(reading, chunk)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("reading links: %w", err)
		}
		for i, f := range found {
			switch {
			case f.err == nil:
				visit(chunk[i], f)
			case errors.Is(f.err, objstore.ErrUnavailable):
				unanswered++
			}
		}
	}
	// A crawl must not end as completed because the store was away.
	if unanswered > 0 && unanswered == len(pages) {
		return fmt.Errorf("reading the links of all %d captured pages: %w", unanswered, objstore.ErrUnavailable)
	}
	return nil
}

func follow(next *frontier, inside *scope, hrefs []string) {
	for _, href := range hrefs {
		if u, err := parseURL(href); err == nil && inside.holds(u) {
			next.take(u)
		}
	}
}

// found is what one links file held.
type found struct {
	final pageURL
	hrefs []string
	err   error
}

// readLinks reads the links files of a few pages at once. One that cannot be
// read costs its page's links and nothing else.
func (s *Service) readLinks(ctx context.Context, pages []*page) []found {
	all := make([]found, len(pages))
	var readers errgroup.Group
	for i, p := range pages {
		readers.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, s.settings.LinksTimeout)
			defer cancel()
			all[i] = s.readLinksOf(ctx, p)
			if err := all[i].err; err != nil {
				telemetry.Log(ctx, s.log).Warn("links of a page not read", zap.String("location", *p.linksLocation), zap.Error(err))
			}
			return nil
		})
	}
	_ = readers.Wait() // a reader keeps its error with what it read
	return all
}

func (s *Service) readLinksOf(ctx context.Context, p *page) found {
	key, err := s.keyOf(*p.linksLocation)
	if err != nil {
		return found{err: err}
	}
	data, err := s.objects.Read(ctx, s.settings.Bucket, key, maxLinksBytes)
	if err != nil {
		return found{err: err}
	}
	final, hrefs, err := parseLinks(data)
	return found{final: final, hrefs: hrefs, err: err}
}

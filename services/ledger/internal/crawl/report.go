package crawl

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/services/ledger/internal/admission"
	"github.com/muniment/muniment/services/ledger/internal/manifest"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// Result is what a level reports of one page. TaskID goes with exactly one of
// ManifestLocation and ManifestError; the contract's validation sees to it.
type Result struct {
	URL              string
	Status           string
	SkipReason       *string
	TaskID           *uuid.UUID
	CorrelationID    *string
	SubmittedAt      *time.Time
	FinishedAt       *time.Time
	LinksLocation    *string
	ManifestLocation *string
	ManifestError    *string
}

// The statuses of a result, and the states of a page.
const (
	captured = "captured"
	failed   = "failed"
)

// Report takes a level's report. Submissions are recorded and archives admitted
// first, each time: whose level was reported before, or whose crawl is closed,
// may still bring tasks that are new. The level itself is then finished once.
func (s *Service) Report(ctx context.Context, c store.Crawl, depth int32, results []Result) (store.LevelReply, error) {
	level, err := s.crawls.Level(ctx, c.ID, depth)
	if err != nil {
		return store.LevelReply{}, err
	}
	submissions, tasks := s.submissions(c, results)
	if err := s.crawls.RecordSubmissions(ctx, c, submissions); err != nil {
		return store.LevelReply{}, err
	}
	said, err := s.admitter.Level(ctx, tasks)
	if err != nil {
		return store.LevelReply{}, fmt.Errorf("admitting the level's captures: %w", err)
	}
	stored, err := s.crawls.StoredReply(ctx, level)
	if err != nil {
		return store.LevelReply{}, err
	}
	if stored != nil {
		return *stored, nil
	}
	report := store.LevelReport{CrawlID: c.ID, Depth: depth, Now: s.clock()}
	pages := pageResults(results, said)
	if err := s.explore(ctx, c, pages, &report); err != nil {
		return store.LevelReply{}, err
	}
	for _, p := range pages {
		report.Results = append(report.Results, p.PageResult)
	}
	report.Deadline = s.settings.Deadline.of(report.Now, len(report.Next), c.PerHostDelayMs)
	reply, err := s.crawls.FinishLevel(ctx, report)
	if err == nil && len(reply.Next) > 0 {
		s.dispatch()
	}
	return reply, err
}

// submissions are the report's tasks, failures included. A location that cannot
// be read is recorded as the manifest's error and fails nothing.
func (s *Service) submissions(c store.Crawl, results []Result) ([]store.NewSubmission, []uuid.UUID) {
	var submissions []store.NewSubmission
	var tasks []uuid.UUID
	for _, r := range results {
		if r.TaskID == nil {
			continue
		}
		sub := store.NewSubmission{TaskID: *r.TaskID, CorrelationID: c.ID.String(), SubmittedAt: s.clock(), ManifestError: r.ManifestError}
		if r.CorrelationID != nil {
			sub.CorrelationID = *r.CorrelationID
		}
		if r.SubmittedAt != nil {
			sub.SubmittedAt = *r.SubmittedAt
		}
		if r.ManifestLocation != nil {
			key, err := s.keyOf(*r.ManifestLocation)
			if err != nil {
				text := "manifestLocation " + err.Error()
				sub.ManifestError = &text
			} else {
				sub.ManifestKey = &key
				tasks = append(tasks, *r.TaskID)
			}
		}
		submissions = append(submissions, sub)
	}
	return submissions, tasks
}

// keyOf returns the key of a location in the configured bucket, exactly as
// reported.
func (s *Service) keyOf(uri string) (string, error) {
	location, err := manifest.ParseLocation(uri)
	if err != nil {
		return "", err
	}
	if location.Bucket != s.settings.Bucket {
		return "", fmt.Errorf("is in another bucket than %s", s.settings.Bucket)
	}
	return location.Key, nil
}

// page is one page's result with what is needed to look for its links.
type page struct {
	store.PageResult
	linksLocation *string
}

// pageResults folds what the manifests said into the results: a page that was
// reported as failed and whose manifest says success was captured. Of several
// results for one page, one that captured it counts, or else the last.
func pageResults(results []Result, said map[uuid.UUID]admission.Said) []page {
	pages := make([]page, 0, len(results))
	at := make(map[string]int, len(results))
	for _, r := range results {
		p := page{linksLocation: r.LinksLocation, PageResult: store.PageResult{
			URL: r.URL, State: r.Status, TaskID: r.TaskID, SubmittedAt: r.SubmittedAt, FinishedAt: r.FinishedAt,
		}}
		if u, err := parseURL(r.URL); err == nil {
			p.URL = u.text
		}
		var told admission.Said
		if r.TaskID != nil {
			told = said[*r.TaskID]
		}
		if p.State == failed && told.Success {
			p.State = captured
		}
		if p.State != captured {
			p.Reason = reason(r, told.Message)
		}
		i, seen := at[p.URL]
		switch {
		case !seen:
			at[p.URL] = len(pages)
			pages = append(pages, p)
		case pages[i].State != captured || p.State == captured:
			pages[i] = p
		}
	}
	return pages
}

// reason is the first that is known of: what the level said, what the manifest
// said, why there is no manifest.
func reason(r Result, message string) *string {
	switch {
	case r.SkipReason != nil:
		return r.SkipReason
	case message != "":
		return &message
	case r.ManifestError != nil:
		return r.ManifestError
	}
	text := "no reason was reported"
	return &text
}

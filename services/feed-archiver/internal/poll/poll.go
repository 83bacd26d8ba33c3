// Package poll reads every source at its own cadence. Any number of archivers
// share the work: a source is claimed in the database, so that one reads it at a
// time, and the claim of a reader that was killed ends by itself.
//
// It decides when to read and hands on what was read; how a source is read is
// the feeds package's, what is kept is the archive's.
package poll

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/feeds"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// Settings say how the pollers share the work.
type Settings struct {
	// Sources are the names of the sources that are read; without it, all.
	Sources []string `env:"SOURCES"`
	// ClaimLease is how long a claim outlives its reader.
	ClaimLease time.Duration `env:"CLAIM_LEASE" envDefault:"30s"`
	// LookEvery is how often a replica looks whether a source is due.
	LookEvery time.Duration `env:"LOOK_EVERY" envDefault:"2s"`
	// FirstReadAfter is when a source is due that no archiver has met before.
	FirstReadAfter time.Duration `env:"FIRST_READ_AFTER" envDefault:"5s"`
}

// Validate checks what the fields cannot say alone.
func (s Settings) Validate(prefix string) error {
	for _, name := range s.Sources {
		if _, ok := feeds.Find(name); !ok {
			return fmt.Errorf("%sSOURCES names the unknown source %q", prefix, name)
		}
	}
	if s.ClaimLease < time.Second {
		return fmt.Errorf("%sCLAIM_LEASE (%s) must be at least 1s", prefix, s.ClaimLease)
	}
	if s.LookEvery < 10*time.Millisecond {
		return fmt.Errorf("%sLOOK_EVERY (%s) must be at least 10ms", prefix, s.LookEvery)
	}
	return nil
}

// ErrReading says that the source is being read by somebody else just now.
var ErrReading = errors.New("the source is being read")

// ErrUnknown says that this archiver does not read a source of that name.
var ErrUnknown = errors.New("not a source of this archiver")

// reader reads one request of a source; exactly one result is set.
type reader interface {
	Read(ctx context.Context, source *feeds.Source, p feeds.Params, last *archive.Validator) (*archive.Read, *archive.Failure)
}

// Poller reads sources.
type Poller struct {
	store    *store.Store
	writer   *archive.Writer
	reader   reader
	sources  []*feeds.Source
	feeds    *feeds.Settings
	settings Settings
	id       uuid.UUID
	metrics  *metrics
	log      *zap.Logger
	now      func() time.Time
}

// New makes a poller of the configured sources.
func New(s *store.Store, writer *archive.Writer, r *feeds.Reader, feedSettings *feeds.Settings, settings Settings, reg registerer, log *zap.Logger, now func() time.Time) *Poller {
	p := &Poller{
		store: s, writer: writer, reader: r, feeds: feedSettings, settings: settings,
		id: uuid.New(), metrics: newMetrics(reg), log: log, now: now,
	}
	for _, source := range feeds.Sources {
		if len(settings.Sources) == 0 || slices.Contains(settings.Sources, source.Name) {
			p.sources = append(p.sources, source)
		}
	}
	return p
}

// Run reads until ctx ends. Its error is a setting that cannot be kept to.
func (p *Poller) Run(ctx context.Context) error {
	if err := p.checkReadTimeout(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, source := range p.sources {
		group.Go(func() error { p.poll(ctx, source); return nil })
	}
	group.Go(func() error { p.observe(ctx); return nil })
	return group.Wait()
}

// checkReadTimeout waits for the database and refuses to read for longer than
// it lets a read take: such a read would be thrown away at its end.
func (p *Poller) checkReadTimeout(ctx context.Context) error {
	for {
		limit, err := p.store.MaxFetchAge(ctx)
		switch {
		case err == nil && p.feeds.ReadTimeout >= limit:
			return fmt.Errorf("READ_TIMEOUT (%s) must be shorter than what the database allows a read to take, max_fetch_age in feed.as_issued_settings (%s)",
				p.feeds.ReadTimeout, limit)
		case err == nil:
			return nil
		}
		if !wait(ctx, jitter(p.settings.LookEvery)) {
			return nil
		}
	}
}

// poll looks, at moments of its own, whether the source is due.
func (p *Poller) poll(ctx context.Context, source *feeds.Source) {
	met := false
	for wait(ctx, jitter(p.settings.LookEvery)) {
		if !met {
			err := p.store.Meet(ctx, source.Name, jitter(p.settings.FirstReadAfter))
			if met = err == nil; !met {
				continue
			}
		}
		reads := telemetry.WithRequestID(ctx, telemetry.NewRequestID())
		if _, err := p.readClaimed(reads, source, false); err != nil && !errors.Is(err, ErrReading) && ctx.Err() == nil {
			telemetry.Log(reads, p.log).Warn("reading a source", zap.String("source", source.Name), zap.Error(err))
		}
	}
}

// Outcome is what became of one request of a source.
type Outcome struct {
	Request    string
	HTTPStatus int
	// Seen is nil for a 304 and for a failed read.
	Seen *int64
	New  int64
	// Failure is the reason of a failed read.
	Failure string
}

// ReadNow reads a source whether it is due or not.
func (p *Poller) ReadNow(ctx context.Context, name string) ([]Outcome, error) {
	source, err := p.find(name)
	if err != nil {
		return nil, err
	}
	return p.readClaimed(ctx, source, true)
}

func (p *Poller) find(name string) (*feeds.Source, error) {
	for _, source := range p.sources {
		if source.Name == name {
			return source, nil
		}
	}
	return nil, ErrUnknown
}

// readClaimed reads the source if it can be claimed, and gives it back, due
// again after its interval or after what a publisher asked for.
func (p *Poller) readClaimed(ctx context.Context, source *feeds.Source, force bool) ([]Outcome, error) {
	_, claimed, err := p.store.Claim(ctx, source.Name, p.id, p.settings.ClaimLease, force)
	if err != nil {
		return nil, err
	}
	if !claimed {
		return nil, ErrReading
	}
	// Whatever ends the read, the source must be given back.
	next := jitter(source.Interval(p.feeds))
	defer func() {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := p.store.Release(release, source.Name, p.id, next); err != nil {
			p.log.Warn("giving a source back; its claim ends by itself", zap.String("source", source.Name), zap.Error(err))
		}
	}()
	held, stop := p.hold(ctx, source)
	defer stop()
	outcomes, pause, err := p.read(held, source)
	switch {
	case err != nil || held.Err() != nil:
		next = min(next, jitter(10*time.Second))
	case len(outcomes) == 0 && source.Follows != "":
		// What it follows held nothing that leads here; look again soon.
		next = min(next, jitter(time.Minute))
	default:
		next = max(next, pause)
	}
	if err == nil {
		err = held.Err()
	}
	return outcomes, err
}

// hold renews the claim until stop is called; the context ends when the claim
// is lost.
func (p *Poller) hold(ctx context.Context, source *feeds.Source) (held context.Context, stop func()) {
	held, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait(held, p.settings.ClaimLease/3) {
			ours, err := p.store.Renew(held, source.Name, p.id, p.settings.ClaimLease)
			if err == nil && !ours {
				p.log.Warn("the claim was lost; giving up the read", zap.String("source", source.Name))
				cancel()
			}
		}
	}()
	return held, func() { cancel(); <-done }
}

// read reads every request of a source, one after another, and stores each
// before it goes on. pause is how long publishers asked to be left alone.
func (p *Poller) read(ctx context.Context, source *feeds.Source) (outcomes []Outcome, pause time.Duration, err error) {
	requests, err := p.requests(ctx, source)
	if err != nil {
		return nil, 0, err
	}
	for _, params := range requests {
		if ctx.Err() != nil {
			return outcomes, pause, nil //nolint:nilerr // what was read before the stop counts
		}
		outcome, until := p.readOne(ctx, source, params)
		outcomes = append(outcomes, outcome)
		if !until.IsZero() {
			pause = max(pause, until.Sub(p.now()))
		}
	}
	return outcomes, pause, nil
}

// heldFor is how far back a followed source's reads still lead somewhere: its
// requests come and go with events and storms.
const heldFor = 24 * time.Hour

// requests asks the source what is to be read, given what the source it follows
// held at its last reads.
func (p *Poller) requests(ctx context.Context, source *feeds.Source) ([]feeds.Params, error) {
	if source.Follows == "" {
		return source.Requests(p.feeds, nil), nil
	}
	now := p.now()
	polls, err := p.store.LastPolls(ctx, source.Follows, now, nil)
	if err != nil {
		return nil, err
	}
	var held []archive.Held
	for _, poll := range polls {
		if poll.FetchedAt.Before(now.Add(-heldFor)) {
			continue
		}
		items, err := p.store.HeldBy(ctx, poll.ID, true)
		if err != nil {
			return nil, err
		}
		for _, i := range items {
			h := archive.Held{Request: poll.Request, ProductID: i.ProductID, IssuedAt: i.IssuedAt, Body: i.Text}
			if i.ItemKey != nil {
				h.ItemKey = *i.ItemKey
			}
			held = append(held, h)
		}
	}
	return source.Requests(p.feeds, held), nil
}

// readOne reads one request and stores what became of it. The writer logs and
// counts what it cannot store; the poller goes on.
func (p *Poller) readOne(ctx context.Context, source *feeds.Source, params feeds.Params) (Outcome, time.Time) {
	read, failure := p.reader.Read(ctx, source, params, p.validator(ctx, source.Name, params.Request))
	if failure != nil {
		outcome := Outcome{Request: params.Request, HTTPStatus: failure.HTTPStatus, Failure: failure.Reason}
		// A read that was given up because we stop is nobody's failure.
		if ctx.Err() == nil {
			_ = p.writer.RecordFailure(ctx, *failure)
		}
		return outcome, failure.RetryAfter
	}
	outcome := Outcome{Request: params.Request, HTTPStatus: read.HTTPStatus}
	recorded, err := p.writer.Record(ctx, *read)
	if err != nil {
		outcome.Failure = told(err)
		return outcome, time.Time{}
	}
	outcome.New = recorded.New
	if !read.NotModified {
		outcome.Seen = &recorded.Seen
	}
	p.keepValidator(ctx, read, recorded.PollID)
	return outcome, time.Time{}
}

// told says why a read was not stored, without the database's own words.
func told(err error) string {
	if errors.Is(err, archive.ErrItem) || errors.Is(err, archive.ErrRead) || errors.Is(err, archive.ErrRights) {
		return err.Error()
	}
	return "the archive could not keep it; the log says why"
}

func (p *Poller) validator(ctx context.Context, source, request string) *archive.Validator {
	v, err := p.store.Validator(ctx, source, request)
	if err != nil || v == nil {
		// Without it the request is unconditional, which is always right.
		return nil
	}
	return &archive.Validator{URLHash: v.URLHash, ETag: v.ETag, LastModified: v.LastModified}
}

func (p *Poller) keepValidator(ctx context.Context, read *archive.Read, pollID int64) {
	var v *store.Validator
	if read.Validator != nil {
		v = &store.Validator{URLHash: read.Validator.URLHash, ETag: read.Validator.ETag, LastModified: read.Validator.LastModified, PollID: pollID}
	}
	if err := p.store.PutValidator(ctx, read.Source, read.Request, v); err != nil {
		p.log.Warn("keeping a validator; the next request is unconditional", zap.String("source", read.Source), zap.Error(err))
	}
}

// wait sleeps, and says whether ctx still runs.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// jitter keeps readers from falling into step, with each other and with the
// clock: a tenth more or less.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

package windmill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/muniment/muniment/services/ledger/internal/store"
)

const (
	// pollEvery is how soon a level is found that another replica left behind.
	pollEvery = 2 * time.Second
	// minSinkLife is the shortest life of a sink token.
	minSinkLife = 3 * time.Hour
)

// levels is what dispatching asks of the ledger's tables.
type levels interface {
	ClaimLevel(ctx context.Context, crawl uuid.UUID, depth int32) (bool, error)
	Crawl(ctx context.Context, id uuid.UUID) (store.Crawl, error)
	Frontier(ctx context.Context, crawl uuid.UUID, depth int32) ([]store.FrontierPage, error)
	LevelDispatched(ctx context.Context, crawl uuid.UUID, depth int32, jobID string) error
	LevelNotDispatched(ctx context.Context, crawl uuid.UUID, depth int32, reason string, now time.Time) (bool, error)
	PendingLevel(ctx context.Context) (*store.PendingLevel, error)
}

// tokens issues the sink's bearer tokens.
type tokens interface {
	Issue(crawl uuid.UUID, expiry time.Time) string
}

// Settings of dispatching.
type Settings struct {
	// Signing is passed on: whether captures are to be signed.
	Signing bool
	// SinkOrigin is where BrowserHive reaches the gateway; empty without a sink.
	SinkOrigin string
}

// Dispatcher hands waiting levels over, outside any request. Many replicas may
// run: each level is claimed in the database first, by one. A replica that dies
// before the claim leaves the level to the others; one that dies after it leaves
// a level whose job may exist, and which is closed as overdue if it does not.
type Dispatcher struct {
	levels   levels
	webhook  *Webhook
	tokens   tokens
	settings Settings
	log      *zap.Logger
	now      func() time.Time
	wake     chan struct{}
}

// NewDispatcher returns a dispatcher; Run starts it. tokens is not used without
// a sink.
func NewDispatcher(l levels, webhook *Webhook, t tokens, settings Settings, log *zap.Logger, now func() time.Time) *Dispatcher {
	return &Dispatcher{levels: l, webhook: webhook, tokens: t, settings: settings, log: log, now: now, wake: make(chan struct{}, 1)}
}

// Wake says that a level waits. It never blocks.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run dispatches until ctx ends. A call that is under way is finished.
func (d *Dispatcher) Run(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		for ctx.Err() == nil {
			found, err := d.dispatchOne(ctx)
			if err != nil && ctx.Err() == nil {
				d.log.Error("dispatching a level", zap.Error(err))
			}
			if err != nil || !found {
				break
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
		case <-tick.C:
		}
	}
}

func (d *Dispatcher) dispatchOne(ctx context.Context) (bool, error) {
	level, err := d.levels.PendingLevel(ctx)
	if err != nil || level == nil {
		return false, err
	}
	order, err := d.order(ctx, level)
	if err != nil {
		return false, err
	}
	mine, err := d.levels.ClaimLevel(ctx, level.CrawlID, level.Depth)
	if err != nil || !mine {
		return false, err
	}
	// From here on the level is nobody else's, so a shutdown waits: the webhook's
	// own time limit bounds it.
	return true, d.hand(context.WithoutCancel(ctx), order)
}

// hand calls the webhook and records what came of it.
func (d *Dispatcher) hand(ctx context.Context, order Order) error {
	job, err := d.webhook.Call(ctx, order)
	if err == nil {
		d.log.Info("level dispatched", zap.Stringer("crawl_id", order.CrawlID), zap.Int32("depth", order.Depth), zap.Int("pages", len(order.Frontier)), zap.String("job_id", job))
		return d.levels.LevelDispatched(ctx, order.CrawlID, order.Depth, job)
	}
	reason := "the level could not be handed over"
	if call, ok := errors.AsType[*CallError](err); ok {
		reason = call.Error()
	}
	closed, closeErr := d.levels.LevelNotDispatched(ctx, order.CrawlID, order.Depth, reason, d.now().UTC())
	d.log.Warn("level not dispatched", zap.Stringer("crawl_id", order.CrawlID), zap.Int32("depth", order.Depth), zap.Bool("closed", closed), zap.NamedError("reason", err), zap.NamedError("cause", errors.Unwrap(err)))
	return closeErr
}

// order builds the webhook's body.
func (d *Dispatcher) order(ctx context.Context, level *store.PendingLevel) (Order, error) {
	c, err := d.levels.Crawl(ctx, level.CrawlID)
	if err != nil {
		return Order{}, fmt.Errorf("reading the level's crawl: %w", err)
	}
	frontier, err := d.levels.Frontier(ctx, level.CrawlID, level.Depth)
	if err != nil {
		return Order{}, err
	}
	order := Order{
		CrawlID: c.ID, Depth: level.Depth, Frontier: make([]Page, len(frontier)),
		PerHostDelayMS: c.PerHostDelayMs, HostParallelism: c.HostParallelism,
		// Links are asked for only where a further level may follow.
		CaptureFormats: CaptureFormats{WACZ: true, Links: level.Depth < c.MaxDepth},
		Signing:        d.settings.Signing, Scripts: []struct{}{},
	}
	for i, p := range frontier {
		order.Frontier[i] = Page{URL: p.URL, Host: p.Host, LastFinishedAt: p.LastFinishedAt}
	}
	if d.settings.SinkOrigin != "" && c.SinkPrefix != nil {
		expiry := level.Deadline
		if soonest := d.now().Add(minSinkLife); expiry.Before(soonest) {
			expiry = soonest
		}
		order.ArtifactSink = &ArtifactSink{URL: d.settings.SinkOrigin + "/api/sink/" + c.ID.String(), Token: d.tokens.Issue(c.ID, expiry)}
	}
	return order, nil
}

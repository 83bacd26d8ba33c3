package crawl

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// overdueEvery is how often a replica looks for crawls whose level is overdue.
const overdueEvery = 5 * time.Second

type overdueCrawls interface {
	CloseOverdue(ctx context.Context, now time.Time) ([]uuid.UUID, error)
}

// Overdue closes crawls whose level was not reported by its deadline, so that no
// flow that died blocks the next crawl for good. It runs in every replica; each
// crawl is closed by one.
type Overdue struct {
	crawls overdueCrawls
	closed prometheus.Counter
	log    *zap.Logger
	now    func() time.Time
}

// NewOverdue returns the loop; Run starts it.
func NewOverdue(c overdueCrawls, reg prometheus.Registerer, log *zap.Logger, now func() time.Time) *Overdue {
	closed := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "muniment_ledger_overdue_crawls_total", Help: "Crawls that this replica closed because a level was overdue.",
	})
	reg.MustRegister(closed)
	return &Overdue{crawls: c, closed: closed, log: log, now: now}
}

// Run looks until ctx ends. A look that failed is logged and made again.
func (o *Overdue) Run(ctx context.Context) error {
	tick := time.NewTicker(overdueEvery)
	defer tick.Stop()
	for {
		if err := o.Look(ctx); err != nil && ctx.Err() == nil {
			o.log.Error("closing overdue crawls", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Look closes what is overdue now.
func (o *Overdue) Look(ctx context.Context) error {
	closed, err := o.crawls.CloseOverdue(ctx, o.now().UTC())
	for _, id := range closed {
		o.closed.Inc()
		o.log.Warn("crawl closed: its level is overdue", zap.Stringer("crawl_id", id))
	}
	return err
}

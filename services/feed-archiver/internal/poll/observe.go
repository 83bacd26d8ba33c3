package poll

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

type registerer = prometheus.Registerer

// metrics show what the database knows of each source, the same in every
// replica.
type metrics struct {
	lag, age, share, restamps *prometheus.GaugeVec
}

func newMetrics(reg registerer) *metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "muniment_feed_" + name, Help: help}, []string{"source"})
		reg.MustRegister(g)
		return g
	}
	return &metrics{
		lag:      gauge("schedule_lag_seconds", "How long the source has been due without being read."),
		age:      gauge("last_good_read_age_seconds", "How long ago the last stored read began."),
		share:    gauge("items_new_share_day", "Share of new bodies among those seen over the last day."),
		restamps: gauge("restamps", "1 where nearly everything is new at every read: a field changes by itself."),
	}
}

// observeEvery is well under the minute that archiver_minutes counts in.
const observeEvery = 15 * time.Second

// observe notes that an archiver is alive and refreshes the metrics.
func (p *Poller) observe(ctx context.Context) {
	for {
		if err := p.look(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("observing the sources", zap.Error(err))
		}
		if !wait(ctx, observeEvery) {
			return
		}
	}
}

// look notes that this archiver is alive, and refreshes the metrics.
func (p *Poller) look(ctx context.Context) error {
	now := p.now()
	if err := p.store.MarkAlive(ctx, now); err != nil {
		return err
	}
	states, err := p.States(ctx)
	if err != nil {
		return err
	}
	for _, s := range states {
		p.metrics.lag.WithLabelValues(s.Source).Set(s.lag(now).Seconds())
		p.metrics.share.WithLabelValues(s.Source).Set(s.Share())
		restamps := 0.0
		if s.Restamps() {
			restamps = 1
		}
		p.metrics.restamps.WithLabelValues(s.Source).Set(restamps)
		if s.LastReadAt != nil {
			p.metrics.age.WithLabelValues(s.Source).Set(now.Sub(*s.LastReadAt).Seconds())
		}
	}
	return nil
}

// State is a source's state with what its description says.
type State struct {
	store.State
	Interval time.Duration
	Follows  string
}

// States returns the states of all sources of this archiver, in the order of
// their names.
func (p *Poller) States(ctx context.Context) ([]State, error) {
	names := make([]string, 0, len(p.sources))
	for _, source := range p.sources {
		names = append(names, source.Name)
	}
	rows, err := p.store.States(ctx, names)
	if err != nil {
		return nil, err
	}
	states := make([]State, 0, len(rows))
	for _, row := range rows {
		source, err := p.find(row.Source)
		if err != nil {
			return nil, err
		}
		states = append(states, State{State: row, Interval: source.Interval(p.feeds), Follows: source.Follows})
	}
	return states, nil
}

func (s State) lag(now time.Time) time.Duration {
	if s.NextReadAt == nil || s.Reading {
		return 0
	}
	return max(0, now.Sub(*s.NextReadAt))
}

// Share is the share of new bodies among those seen over the last day.
func (s State) Share() float64 {
	if s.Seen == 0 {
		return 0
	}
	return float64(s.New) / float64(s.Seen)
}

// Enough reads to judge by, and how much of them must be new.
const (
	restampReads = 5
	restampShare = 0.9
)

// Restamps says that nearly everything is new at every read. A publisher who
// answers that nothing has changed restamps nothing: what he then sends is new.
func (s State) Restamps() bool {
	return s.Reads-s.Unchanged >= restampReads && s.Unchanged < restampReads && s.Share() >= restampShare
}

package server

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/muniment/muniment/pkg/pb/muniment/ledger/v1"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// timestamp leaves out a time that is not known.
func timestamp(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

// instant is the time as the database keeps it, nil where it was not given.
func instant(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime().Truncate(time.Microsecond)
	return &at
}

func lastJob(c store.Crawl) *ledgerv1.Job {
	if c.LastJobID == nil || c.LastJobDepth == nil {
		return nil
	}
	return &ledgerv1.Job{Id: *c.LastJobID, Depth: *c.LastJobDepth}
}

func crawlMessage(c store.Crawl, failures []store.Failure) *ledgerv1.Crawl {
	m := &ledgerv1.Crawl{
		CrawlId: c.ID.String(), Seeds: c.Seeds, Scope: c.Scope, State: c.State, StopReason: c.StopReason,
		MaxDepth: c.MaxDepth, MaxPages: c.MaxPages, PerHostDelayMs: c.PerHostDelayMs, HostParallelism: c.HostParallelism,
		StartedAt: timestamppb.New(c.StartedAt), FinishedAt: timestamp(c.FinishedAt),
		PagesDiscovered: c.PagesDiscovered, PagesCaptured: c.PagesCaptured, Error: c.Error, LastJob: lastJob(c),
	}
	for _, f := range failures {
		failure := &ledgerv1.PageFailure{Url: f.Url, Depth: f.Depth}
		if f.Reason != nil {
			failure.Reason = *f.Reason
		}
		m.Failures = append(m.Failures, failure)
	}
	return m
}

func crawlSummary(c store.Crawl) *ledgerv1.CrawlSummary {
	return &ledgerv1.CrawlSummary{
		CrawlId: c.ID.String(), Seeds: c.Seeds, Scope: c.Scope, State: c.State, StopReason: c.StopReason,
		MaxDepth: c.MaxDepth, MaxPages: c.MaxPages, PerHostDelayMs: c.PerHostDelayMs, HostParallelism: c.HostParallelism,
		StartedAt: timestamppb.New(c.StartedAt), FinishedAt: timestamp(c.FinishedAt),
		PagesDiscovered: c.PagesDiscovered, PagesCaptured: c.PagesCaptured, Error: c.Error, LastJob: lastJob(c),
	}
}

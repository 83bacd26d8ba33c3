package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
)

// An audit's memory does not grow with the archive: what it compares goes through
// files, and a part of each is in memory at a time. Here both sides are written
// and judged as an audit does it, with one tuple missing among all of them.
// Stated volume: 1,000,000 archives with three tuples each.
func TestAuditInBoundedMemory(t *testing.T) {
	archives := testkit.Soak(50_000, 1_000_000)
	space := uuid.New()
	tuples := func(n int) []fga.Tuple {
		id := uuid.NewSHA1(space, fmt.Append(nil, n)).String()
		return fga.CaptureTuples(id, id, "acme", "alice")
	}
	expected, err := newSpill()
	if err != nil {
		t.Fatal(err)
	}
	held, err := newSpill()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, s := range []*spill{expected, held} {
			if err := s.close(); err != nil {
				t.Error(err)
			}
		}
	}()
	lost := tuples(archives / 2)[0]

	runtime.GC()
	grown := watchHeap()
	began := time.Now()
	for n := range archives {
		for _, tuple := range tuples(n) {
			if err := expected.add(tuple); err != nil {
				t.Fatal(err)
			}
			if tuple.Key() == lost.Key() {
				continue
			}
			if err := held.add(tuple); err != nil {
				t.Fatal(err)
			}
		}
	}
	found := difference{lacking: map[auditKey]fga.Tuple{}, tooMuch: map[auditKey]fga.Tuple{}}
	for part := range spillParts {
		if err := found.judge(expected, held, part); err != nil {
			t.Fatal(err)
		}
	}
	mib := grown() >> 20
	t.Logf("comparing %d archives took %s and %d MiB", archives, time.Since(began).Round(time.Millisecond), mib)
	if mib > 64 {
		t.Errorf("comparing %d archives took %d MiB", archives, mib)
	}
	key, err := auditKeyOf(lost)
	if err != nil {
		t.Fatal(err)
	}
	if _, lacks := found.lacking[key]; !lacks || len(found.lacking) != 1 || len(found.tooMuch) != 0 {
		t.Errorf("found %d lacking and %d too much", len(found.lacking), len(found.tooMuch))
	}
}

// watchHeap looks at the heap until the function that it returns is called, which
// says by how many bytes it had grown at its largest.
func watchHeap() func() int64 {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse)
	}
	before := heap()
	var peak atomic.Int64
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				peak.Store(max(peak.Load(), heap()))
			}
		}
	})
	return func() int64 {
		close(stop)
		watching.Wait()
		return peak.Load() - before
	}
}

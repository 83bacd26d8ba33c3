package archive_test

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// maxMemory is what a read of the stated size may take.
const maxMemory = 400 << 20

// declarations makes a body of n rows of the size that the real ones have, and
// its items as a splitter would: parts of the one body.
func declarations(n int) []archive.Item {
	var body bytes.Buffer
	body.Grow(n * 900)
	ends := make([]int, n)
	for i := range n {
		fmt.Fprintf(&body, `{"femaDeclarationString":"DR-%d-TX","disasterNumber":%d,"state":"TX","declarationType":"DR","declarationDate":"2022-10-26T00:00:00.000Z","fyDeclared":2022,"incidentType":"Severe Storm","declarationTitle":"SEVERE STORMS AND FLOODING, TORNADOES AND STRAIGHT-LINE WINDS","ihProgramDeclared":true,"iaProgramDeclared":false,"paProgramDeclared":true,"hmProgramDeclared":true,"incidentBeginDate":"2022-09-16T00:00:00.000Z","incidentEndDate":null,"disasterCloseoutDate":null,"tribalRequest":false,"fipsStateCode":"48","fipsCountyCode":"%03d","placeCode":"99%03d","designatedArea":"Some (County)","declarationRequestNumber":"22149","lastIAFilingDate":null,"lastRefresh":"%s","hash":"b4da5a4b9d6ae3d2b1a8c0b3b8d2e7f0a1c2d3e4","id":"row-%06d"}`, i, i, i%1000, i%1000, time.Now().UTC().Format(time.RFC3339Nano), i)
		ends[i] = body.Len()
	}
	items, start := make([]archive.Item, n), 0
	for i, end := range ends {
		items[i] = archive.Item{ProductID: fmt.Sprintf("row-%06d", i), Kind: archive.JSON, Body: body.Bytes()[start:end]}
		start = end
	}
	return items
}

// peak runs work and returns the most memory that the process held meanwhile.
func peak(work func()) uint64 {
	debug.FreeOSMemory()
	done, stopped := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse+m.StackInuse)
			select {
			case <-done:
				stopped <- most
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	work()
	close(done)
	return <-stopped
}

// A whole reload in which nothing changed but a removed field.
func TestAnUnchangedReload(t *testing.T) {
	n := testkit.Soak(7_000, 70_000)
	b := setup(t)
	reload := func() archive.Read {
		r := read(declarations(n)...)
		r.RemovedFields = []string{"lastRefresh"}
		return r
	}
	mustRecord(t, b, reload(), int64(n), int64(n))
	most := peak(func() { mustRecord(t, b, reload(), int64(n), 0) })
	t.Logf("%d rows unchanged: at most %d MiB", n, most>>20)
	if most > maxMemory {
		t.Errorf("%d MiB, over the limit of %d", most>>20, maxMemory>>20)
	}
	if got := b.count(t, "as_issued_products"); got != n {
		t.Errorf("%d products, want %d", got, n)
	}
	if got := b.count(t, "as_issued_polls WHERE items_new = 0 AND held IS NULL AND appeared IS NULL AND disappeared IS NULL"); got != 1 {
		t.Errorf("%d polls without changes, want 1", got)
	}
}

// A world's hotspots in one read, all of them new, and then the next one.
func TestManyHotspots(t *testing.T) {
	n := testkit.Soak(10_000, 100_000)
	b := setup(t)
	hotspots := func(from int) archive.Read {
		items := make([]archive.Item, n)
		for i := range items {
			items[i] = archive.Item{
				ProductID: fmt.Sprintf("%d.5,-100.25,2026-11-30,0003,N21", from+i), Kind: archive.Text,
				Body: fmt.Appendf(nil, "%d.50000,-100.25000,331.15,0.42,0.38,2026-11-30,0003,N21,VIIRS,nominal,2.0NRT,290.51,4.33,N", from+i),
			}
		}
		return read(items...)
	}
	most := peak(func() { mustRecord(t, b, hotspots(0), int64(n), int64(n)) })
	t.Logf("%d lines, all new: at most %d MiB", n, most>>20)
	again := peak(func() { mustRecord(t, b, hotspots(n/10), int64(n), int64(n/10)) })
	t.Logf("%d lines, a tenth new: at most %d MiB", n, again>>20)
	if max(most, again) > maxMemory {
		t.Errorf("%d MiB, over the limit of %d", max(most, again)>>20, maxMemory>>20)
	}
}

package feeds

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"github.com/muniment/muniment/services/feed-archiver/internal/feeds/feedtest"
)

// Sizes that the archive is held to. What a splitter may cost beside the bytes
// themselves is a few words for each item; the 400 MiB are for all of a read.
const (
	declarationsStated = 70_000
	hotspotsStated     = 100_000
	mebibyte           = 1 << 20
)

// TestDeclarationsOfFullSize reads all declarations in pages of 10,000 through
// HTTP, and holds them, as the archive must before it writes.
func TestDeclarationsOfFullSize(t *testing.T) {
	b := setup(t)
	const perPage = 10_000
	const path = "/api/open/v2/DisasterDeclarationsSummaries"
	var answers []feedtest.Answer
	for first := 0; first < declarationsStated; first += perPage {
		answers = append(answers, feedtest.Answer{Body: declarations(first, perPage)})
	}
	b.server.Answer(path, append(answers, feedtest.Answer{Body: declarations(0, 0)})...)
	before := heap()
	read, failure := b.read(t, "openfema_declarations", Params{Request: "all"})
	if failure != nil || len(read.Items) != declarationsStated {
		t.Fatalf("failure %+v", failure)
	}
	if used := heap() - before; used > 150*mebibyte {
		t.Errorf("%d MiB are held for %d declarations", used/mebibyte, declarationsStated)
	}
	runtime.KeepAlive(read)
}

func TestHotspotsOfFullSize(t *testing.T) {
	body := hotspots(hotspotsStated)
	before := heap()
	page, err := splitNASAFIRMS(body, Params{})
	if err != nil || len(page.Items) != hotspotsStated {
		t.Fatalf("%d items, error %v", len(page.Items), err)
	}
	if used := heap() - before; used > 60*mebibyte {
		t.Errorf("%d MiB beside the body are held for %d hotspots", used/mebibyte, hotspotsStated)
	}
	runtime.KeepAlive(page)
}

func BenchmarkSplitDeclarations(b *testing.B) {
	body := declarations(0, 10_000)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := splitOpenFEMADeclarations(body, Params{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSplitHotspots(b *testing.B) {
	body := hotspots(hotspotsStated)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := splitNASAFIRMS(body, Params{}); err != nil {
			b.Fatal(err)
		}
	}
}

// declarations makes a page of rows of the size that the publisher's have.
func declarations(first, n int) []byte {
	var page bytes.Buffer
	fmt.Fprintf(&page, `{"metadata":{"skip":%d,"top":10000,"count":0},"DisasterDeclarationsSummaries":[`, first)
	for i := first; i < first+n; i++ {
		if i > first {
			page.WriteByte(',')
		}
		fmt.Fprintf(&page, `{"id":"00000000-0000-4000-8000-%012d","disasterNumber":%d,"declarationDate":"2022-07-19T00:00:00.000Z","lastRefresh":"2026-07-20T21:21:23.941Z","filler":"%0560d"}`, i, i, i)
	}
	page.WriteString(`]}`)
	return page.Bytes()
}

func hotspots(n int) []byte {
	body := []byte("latitude,longitude,bright_ti4,scan,track,acq_date,acq_time,satellite,instrument,confidence,version,bright_ti5,frp,daynight\n")
	for i := range n {
		body = strconv.AppendFloat(body, float64(i)/1000, 'f', 5, 64)
		body = append(body, ",34.36618,303.36,0.74,0.76,2026-09-26,0003,N21,VIIRS,n,2.0NRT,288.25,2.31,N\n"...)
	}
	return body
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

package archive_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/rights"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// bundle is a writer on a database of its own.
type bundle struct {
	writer    *archive.Writer
	feed      *pgxpool.Pool // as the service
	superuser *pgxpool.Pool
	logs      *observer.ObservedLogs
}

func setup(t *testing.T) bundle {
	t.Helper()
	db := testkit.Postgres(t)
	b := bundle{feed: db.Pool(t, "feed"), superuser: db.Pool(t, "superuser")}
	core, logs := observer.New(zap.InfoLevel)
	b.logs = logs
	register := rights.Register{"demo": {StoragePermitted: true}, "closed": {StoragePermitted: false}}
	b.writer = archive.New(store.New(b.feed), register, archive.NewMetrics(prometheus.NewRegistry()), zap.New(core), archive.InTests())
	return b
}

func (b bundle) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	var n int
	if err := b.superuser.QueryRow(t.Context(), "SELECT count(*) FROM feed."+query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func item(id, body string) archive.Item {
	return archive.Item{ProductID: id, Kind: archive.JSON, Body: []byte(body)}
}

func read(items ...archive.Item) archive.Read {
	return archive.Read{Source: "demo", Request: "active", FetchedAt: time.Now(), HTTPStatus: 200, Items: items}
}

func alerts(n int, changed map[int]bool) []archive.Item {
	items := make([]archive.Item, n)
	for i := range items {
		items[i] = item(fmt.Sprintf("urn:%d", i), fmt.Sprintf(`{"id":"urn:%d","headline":"flood","changed":%t}`, i, changed[i]))
	}
	return items
}

func mustRecord(t *testing.T, b bundle, r archive.Read, seen, fresh int64) {
	t.Helper()
	got, err := b.writer.Record(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got.Seen != seen || got.New != fresh {
		t.Fatalf("seen %d, new %d; want %d and %d", got.Seen, got.New, seen, fresh)
	}
}

// The main job's own case: 480 items, then 480 of which three changed.
func TestTwoReads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mustRecord(t, b, read(alerts(480, nil)...), 480, 480)
	mustRecord(t, b, read(alerts(480, map[int]bool{3: true, 200: true, 479: true})...), 480, 3)
	mustRecord(t, b, read(alerts(480, map[int]bool{3: true, 200: true, 479: true})...), 480, 0)
	if n := b.count(t, "as_issued_products WHERE source = 'demo'"); n != 483 {
		t.Errorf("%d products, want 483", n)
	}
	if n := b.count(t, "as_issued_polls WHERE source = 'demo' AND items_seen = 480"); n != 3 {
		t.Errorf("%d polls, want 3", n)
	}
	var text, hash string
	if err := b.feed.QueryRow(t.Context(), `SELECT content_text, content_hash FROM as_issued_products WHERE product_id = 'urn:3' ORDER BY id DESC LIMIT 1`).Scan(&text, &hash); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	if text != `{"changed":true,"headline":"flood","id":"urn:3"}` || hex.EncodeToString(sum[:]) != hash {
		t.Errorf("stored %s with hash %s", text, hash)
	}
}

func TestQuietAndUnchangedReads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mustRecord(t, b, read(), 0, 0)
	mustRecord(t, b, archive.Read{
		Source: "demo", Request: "active", FetchedAt: time.Now(), HTTPStatus: 304, NotModified: true,
		Headers: archive.Headers{Date: "Mon, 30 Nov 2026 20:00:00 GMT", Age: "7", LastModified: "Mon, 30 Nov 2026 19:00:00 GMT"},
	}, 0, 0)
	if n := b.count(t, "as_issued_polls WHERE http_status = 200 AND items_seen = 0 AND items_new = 0"); n != 1 {
		t.Errorf("%d quiet polls, want 1", n)
	}
	if n := b.count(t, "as_issued_polls WHERE http_status = 304 AND items_seen IS NULL AND items_new = 0 AND http_age = '7' AND http_date IS NOT NULL AND http_last_modified IS NOT NULL"); n != 1 {
		t.Errorf("%d polls of a 304, want 1", n)
	}
}

// Of a header that somebody else wrote the beginning is kept, as text that a row
// can hold.
func TestAHeaderOfAnyKindIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := read()
	r.Headers = archive.Headers{Date: strings.Repeat("x", 300), Age: "a\x00b\xff", LastModified: strings.Repeat("é", 150)}
	mustRecord(t, b, r, 0, 0)
	if n := b.count(t, "as_issued_polls WHERE http_date = repeat('x', 200) AND http_age = 'ab' AND http_last_modified = repeat('é', 100)"); n != 1 {
		t.Error("the headers were not kept, or not cut")
	}
}

func TestT34AFailedReadIsNoPoll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, f := range []archive.Failure{
		{HTTPStatus: 400, Reason: "the server answered bad request"},
		{HTTPStatus: 0, Reason: "the server did not answer\nin time\x00"},
	} {
		f.Source, f.Request, f.FetchedAt = "demo", "active", time.Now()
		if err := b.writer.RecordFailure(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.count(t, "as_issued_failed_reads WHERE (http_status = 400) OR (http_status IS NULL AND reason = 'the server did not answer in time')"); n != 2 {
		t.Errorf("%d failed reads, want 2", n)
	}
	if n := b.count(t, "as_issued_polls") + b.count(t, "as_issued_products"); n != 0 {
		t.Errorf("%d polls and products, want none", n)
	}
}

// A repeat within one read is one product; the same id with two bodies is two.
func TestT35RepeatsWithinARead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mustRecord(t, b, read(item("a", `{"v":1}`), item("b", `{"v":1}`), item("a", `{ "v": 1.0 }`), item("a", `{"v":2}`)), 3, 3)
}

func TestT37UpdatesAreProductsOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mustRecord(t, b, read(
		item("a.1", `{"id":"a.1","messageType":"Alert"}`),
		item("a.2", `{"id":"a.2","messageType":"Update","references":[{"identifier":"a.1"}]}`),
		item("a.3", `{"id":"a.3","messageType":"Cancel","references":[{"identifier":"a.1"},{"identifier":"a.2"}]}`)), 3, 3)
	if n := b.count(t, `as_issued_products WHERE product_id = 'a.3' AND content_text LIKE '%"references":[{"identifier":"a.1"},{"identifier":"a.2"}]%'`); n != 1 {
		t.Error("the references were not kept as received")
	}
}

// Two reads that differ in one thing only: which of them is new, and why.
func TestT39WhatMakesAReadNew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mark := item("b", `{"id":"b"}`)
	text := func(line string) []archive.Item {
		return []archive.Item{{ProductID: "row", Kind: archive.Text, Body: []byte(line)}}
	}
	for _, c := range []struct {
		name          string
		first, second []archive.Item
		removed       []string
		fresh         int64
		why           string
	}{
		{"the order of the items", []archive.Item{item("a", `{"id":"a"}`), mark}, []archive.Item{mark, item("a", `{"id":"a"}`)}, nil, 0, "a read is a set"},
		{"a repeated item", []archive.Item{mark}, []archive.Item{mark, mark}, nil, 0, "a repeat is one product"},
		{"the order of names", []archive.Item{item("names", `{"v":1,"w":2}`)}, []archive.Item{item("names", `{"w":2,"v":1}`)}, nil, 0, "an object has no order"},
		{"the order of an array", []archive.Item{item("array", `{"v":[1,2]}`)}, []archive.Item{item("array", `{"v":[2,1]}`)}, nil, 1, "an array has, and is never sorted"},
		{"white space", []archive.Item{item("space", `{"v":[1,2]}`)}, []archive.Item{item("space", "{\n \"v\" : [ 1,\t2 ] }\r\n")}, nil, 0, "RFC 8785 has none"},
		{"white space in a text of JSON", []archive.Item{item("inner", `{"v":"a b"}`)}, []archive.Item{item("inner", `{"v":"a  b"}`)}, nil, 1, "it is what is said"},
		{"white space in a text", text("1,2"), text("1, 2"), nil, 1, "a text is kept as received"},
		{"the spelling of a number", []archive.Item{item("number", `{"v":1.0,"w":100}`)}, []archive.Item{item("number", `{"v":1,"w":1e2}`)}, nil, 0, "it is the same double"},
		{"the spelling of a number in a text", text("1.0"), text("1"), nil, 1, "a text is kept as received"},
		{"a number quoted", []archive.Item{item("quoted", `{"v":1}`)}, []archive.Item{item("quoted", `{"v":"1"}`)}, nil, 1, "a text is no number"},
		{"the spelling of a text", []archive.Item{item("escape", `{"v":"\u00e9\/"}`)}, []archive.Item{item("escape", `{"v":"é/"}`)}, nil, 0, "it is the same text"},
		{"null for nothing", []archive.Item{item("null", `{"v":1}`)}, []archive.Item{item("null", `{"v":1,"w":null}`)}, nil, 1, "null is said"},
		{"a removed field", []archive.Item{item("removed", `{"v":1,"at":"2022-10-28"}`)}, []archive.Item{item("removed", `{"at":null,"v":1}`)}, []string{"at"}, 0, "it is not stored"},
		{"a removed field that is gone", []archive.Item{item("gone", `{"v":1,"at":"2022-10-28"}`)}, []archive.Item{item("gone", `{"v":1}`)}, []string{"at"}, 1, "the body says whether there was one"},
		{"a field that is not removed", []archive.Item{item("kept", `{"v":1,"at":"2022-10-28"}`)}, []archive.Item{item("kept", `{"v":1,"at":"2022-10-29"}`)}, nil, 1, "it is another body"},
	} {
		for round, want := range []struct {
			items []archive.Item
			fresh int64
		}{{c.first, -1}, {c.second, c.fresh}, {c.second, 0}} {
			r := read(want.items...)
			r.RemovedFields = c.removed
			got, err := b.writer.Record(t.Context(), r)
			if err != nil || (want.fresh >= 0 && got.New != want.fresh) {
				t.Errorf("%s, read %d: %d new, %v; want %d: %s", c.name, round, got.New, err, want.fresh, c.why)
			}
		}
	}
	if n := b.count(t, `as_issued_products WHERE product_id = 'removed' AND content_text = '{"_archive_removed_fields":["at"],"v":1}'`); n != 1 {
		t.Error("the body does not list what was removed")
	}
}

func TestT41NulIsStoredAmongItsNeighbours(t *testing.T) {
	t.Parallel()
	b := setup(t)
	items := alerts(19, nil)
	items = append(items, item("x", `{"id":"x","headline":"a\u0000b"}`),
		archive.Item{ProductID: "raw", Kind: archive.Text, Body: []byte("a\x00b")},
		archive.Item{ProductID: "latin", Kind: archive.Text, Body: []byte("caf\xe9")},
		archive.Item{ProductID: "zip", Kind: archive.Binary, Body: []byte("PK\x03\x04")})
	mustRecord(t, b, read(items...), 23, 23)
	for _, want := range []string{
		`product_id = 'x' AND encoding = 'json' AND byte_length = 32 AND content_hash = 'f31da7ae3cb1927af2f22708128d3bebe4daaddbd79576513ad67702fab84410'`,
		`product_id = 'raw' AND encoding = 'base64' AND decode(content_text, 'base64') = '\x610062'`,
		`product_id = 'latin' AND encoding = 'base64' AND decode(content_text, 'base64') = '\x636166e9'`,
		`product_id = 'zip' AND encoding = 'base64' AND content_text = 'UEsDBA=='`,
		`true`,
	} {
		query := "as_issued_products WHERE content_hash = encode(sha256(convert_to(content_text, 'UTF8')), 'hex') AND " + want
		if n := b.count(t, query); n == 0 || want == "true" && n != 23 {
			t.Errorf("%d rows with %s", n, want)
		}
	}
}

func TestAnItemWhoseMeaningWouldChangeIsKeptAsReceived(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// A year that no reply can spell would come back as another one.
	late := item("late", `{"t":2}`)
	in12000 := time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)
	late.IssuedAt = &in12000
	mustRecord(t, b, read(late, item("big", `{"id": 9007199254740993}`), item("twice", `{"a":1, "a":2}`), item("lone", `{"t":"\ud800"}`),
		item("bytes", "{\"t\":\"\xff\"}"), item("bom", "\xef\xbb\xbf{\"t\":1}")), 6, 6)
	for _, want := range []string{
		`product_id = 'late' AND encoding = 'json' AND issued_at IS NULL`,
		`product_id = 'big' AND encoding = 'text' AND content_text = '{"id": 9007199254740993}'`,
		`product_id = 'twice' AND encoding = 'text' AND content_text = '{"a":1, "a":2}'`,
		`product_id = 'lone' AND encoding = 'text'`,
		`product_id = 'bytes' AND encoding = 'base64'`,
		`product_id = 'bom' AND encoding = 'json' AND content_text = '{"t":1}'`,
	} {
		if b.count(t, "as_issued_products WHERE "+want) != 1 {
			t.Errorf("no row with %s", want)
		}
	}
}

// What may not be stored cannot be kept as received: the read fails.
func TestSuchAnItemFailsAReadThatRemovesFields(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, body := range map[string]string{
		"an integer without a double": `{"id":9007199254740993,"name":"Jane"}`,
		"a duplicate name":            `{"a":1,"a":2}`,
		"a duplicate of the removed":  `{"name":"Jane","name":"Doe"}`,
		"a list of its own":           `{"_archive_removed_fields":[],"name":"Jane"}`,
		"no JSON":                     `{"a":`,
		"two values":                  `{"a":1}{"name":"Jane"}`,
	} {
		r := read(item("good", `{"a":1}`), item("bad", body))
		r.Request, r.RemovedFields = name, []string{"name"}
		if _, err := b.writer.Record(t.Context(), r); !errors.Is(err, archive.ErrItem) {
			t.Errorf("%s: %v", name, err)
		}
		if n := b.count(t, "as_issued_failed_reads WHERE http_status = 200 AND request = $1", name); n != 1 {
			t.Errorf("%s: %d failed reads, want 1", name, n)
		}
	}
	if n := b.count(t, "as_issued_polls") + b.count(t, "as_issued_products"); n != 0 {
		t.Errorf("%d rows of such reads", n)
	}
	if b.count(t, "as_issued_failed_reads WHERE reason LIKE '%Jane%'") != 0 {
		t.Error("a reason repeats a personal field")
	}
}

// A byte order mark stands before JSON and is no part of it, whatever becomes of
// the item.
func TestAByteOrderMarkIsNotKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := read(item("removed", "\xef\xbb\xbf{\"at\":1,\"v\":1}"))
	r.RemovedFields = []string{"at"}
	mustRecord(t, b, r, 1, 1)
	mustRecord(t, b, read(item("as received", "\xef\xbb\xbf{\"at\": 9007199254740993}")), 1, 1)
	for _, want := range []string{`{"_archive_removed_fields":["at"],"v":1}`, `{"at": 9007199254740993}`} {
		if n := b.count(t, "as_issued_products WHERE content_text = $1", want); n != 1 {
			t.Errorf("%d rows of %s, want 1", n, want)
		}
	}
}

// A name that no row can hold fails its read, whoever hands it in.
func TestNamesThatCannotBeKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, bad := range map[string]archive.Item{
		"none":               {},
		"too long":           {ProductID: strings.Repeat("x", 1025)},
		"with NUL":           {ProductID: "a\x00b"},
		"no UTF-8":           {ProductID: "caf\xe9"},
		"a key too long":     {ProductID: "a", ItemKey: strings.Repeat("x", 1025)},
		"a key that has NUL": {ProductID: "a", ItemKey: "\x00"},
	} {
		bad.Kind, bad.Body = archive.JSON, []byte(`{}`)
		r := read(item("good", `{}`), bad)
		r.Request = name
		if _, err := b.writer.Record(t.Context(), r); !errors.Is(err, archive.ErrItem) {
			t.Errorf("%s: %v", name, err)
		}
		if n := b.count(t, "as_issued_failed_reads WHERE http_status = 200 AND request = $1", name); n != 1 {
			t.Errorf("%s: %d failed reads, want 1", name, n)
		}
	}
	if n := b.count(t, "as_issued_polls") + b.count(t, "as_issued_products"); n != 0 {
		t.Errorf("%d rows of such reads", n)
	}
	mustRecord(t, b, read(archive.Item{ProductID: strings.Repeat("x", 1024), ItemKey: strings.Repeat("y", 1024), Kind: archive.JSON, Body: []byte(`{}`)}), 1, 1)
}

func TestItemKeysTellItemsApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keyed := func(key string) archive.Item {
		i := item("fire", `{"same":"body"}`)
		i.ItemKey = key
		return i
	}
	mustRecord(t, b, read(keyed("1"), keyed("2"), keyed("")), 3, 3)
	mustRecord(t, b, read(keyed("1"), keyed("2"), keyed("")), 3, 0)
}

func TestRightsDecide(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, source := range []string{"closed", "unknown"} {
		r := read(item("a", `{}`))
		r.Source = source
		if _, err := b.writer.Record(t.Context(), r); !errors.Is(err, archive.ErrRights) {
			t.Errorf("%s: %v", source, err)
		}
		if err := b.writer.RecordFailure(t.Context(), archive.Failure{Source: source, Request: "active", FetchedAt: time.Now(), Reason: "x"}); !errors.Is(err, archive.ErrRights) {
			t.Errorf("%s: %v", source, err)
		}
	}
	if b.count(t, "as_issued_polls") != 0 {
		t.Error("a source without the right was stored")
	}
}

func TestDisabledUnderTest(t *testing.T) {
	t.Parallel()
	w := archive.New(nil, rights.Register{"demo": {StoragePermitted: true}}, archive.NewMetrics(prometheus.NewRegistry()), zap.NewNop())
	if _, err := w.Record(t.Context(), read()); err == nil || err.Error() != "archive disabled under test" {
		t.Errorf("got %v", err)
	}
}

// The caller goes on whatever happens, and what happened is found under one name.
func TestNeverFailsItsCaller(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	core, logs := observer.New(zap.InfoLevel)
	w := archive.New(nil, rights.Register{"demo": {StoragePermitted: true}}, archive.NewMetrics(registry), zap.New(core), archive.InTests())
	// Without a store every call panics inside.
	if _, err := w.Record(t.Context(), read(item("a", `{}`))); err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("got %v", err)
	}
	if logs.FilterMessage(archive.LogName).Len() != 1 {
		t.Errorf("%d lines under %s, want 1", logs.FilterMessage(archive.LogName).Len(), archive.LogName)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "muniment_feed_archive_write_failures_total" || families[0].GetMetric()[0].GetCounter().GetValue() != 1 {
		t.Errorf("counted %v, %v; want one write failure", families, err)
	}
}

func TestNoGapIsFilledAfterwards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, at := range []time.Duration{-5*time.Minute - time.Second, 5 * time.Second, -24 * time.Hour, time.Hour} {
		r := read(item("a", `{}`))
		r.FetchedAt = time.Now().Add(at)
		if _, err := b.writer.Record(t.Context(), r); !errors.Is(err, store.ErrFetchedAt) {
			t.Errorf("fetched %s from now: %v", at, err)
		}
		f := archive.Failure{Source: "demo", Request: "active", FetchedAt: r.FetchedAt, Reason: "x"}
		if err := b.writer.RecordFailure(t.Context(), f); !errors.Is(err, store.ErrFetchedAt) {
			t.Errorf("failed %s from now: %v", at, err)
		}
	}
	if b.count(t, "as_issued_products")+b.count(t, "as_issued_polls")+b.count(t, "as_issued_failed_reads") != 0 {
		t.Error("a refused read left something behind")
	}
	r := read(item("a", `{}`))
	r.FetchedAt = time.Now().Add(-4 * time.Minute)
	mustRecord(t, b, r, 1, 1)

	// The operator may allow more.
	if _, err := b.superuser.Exec(t.Context(), "UPDATE feed.as_issued_settings SET max_fetch_age = '1 hour'"); err != nil {
		t.Fatal(err)
	}
	r.FetchedAt = time.Now().Add(-50 * time.Minute)
	mustRecord(t, b, r, 1, 0)
}

// Many writers of the same and of other requests at once: each body once, every
// read a poll, every chain true.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for round := range 5 {
				r := read(alerts(40, map[int]bool{round: true})...)
				r.Request = fmt.Sprintf("query-%d", w%2)
				if _, err := b.writer.Record(context.WithoutCancel(t.Context()), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := b.count(t, "as_issued_products"); n != 45 {
		t.Errorf("%d products, want 45", n)
	}
	if n := b.count(t, "as_issued_polls"); n != 30 {
		t.Errorf("%d polls, want 30", n)
	}
	var fresh int
	if err := b.superuser.QueryRow(t.Context(), "SELECT sum(items_new) FROM feed.as_issued_polls").Scan(&fresh); err != nil || fresh != 45 {
		t.Errorf("the polls claim %d new items, %v; want 45", fresh, err)
	}
}

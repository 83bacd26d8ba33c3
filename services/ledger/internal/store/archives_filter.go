package store

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Completeness is what a manifest said of its WACZ, as a filter.
type Completeness int

// The three values, and any of them.
const (
	CompletenessAny Completeness = iota
	CompletenessTrue
	CompletenessFalse
	CompletenessUnknown
)

// ArchiveFilter leaves archives out of a list. What is nil leaves out none.
type ArchiveFilter struct {
	// URL is the source URL exactly, URLPrefix what it begins with.
	URL, URLPrefix *string
	// Host is the source URL's, without a port.
	Host  *string
	Label *string
	// From and To bound the time of the capture; both are inside.
	From, To *time.Time
	Complete Completeness
	Crawl    *uuid.UUID
	// Among, where it is not nil, are the only archives to look at.
	Among []uuid.UUID
	// Near orders the list by distance from that time, the earlier of two that are
	// equally far first. Without it, the newest comes first.
	Near *time.Time
}

// The parts of the statement, each spelled as its index is (migration 0004).
const (
	archiveColumns = "id, task_id, source_url, labels, wacz_complete, signed, captured_at, object_key"
	selectArchives = "SELECT " + archiveColumns + " FROM archives WHERE "
	urlKey         = `left(source_url, 512) COLLATE "C"`
	newestFirst    = "(captured_at, id) < (?, ?) ORDER BY captured_at DESC, id DESC LIMIT ?"
	oldestFirst    = "(captured_at, id) > (?, ?) ORDER BY captured_at, id LIMIT ?"
	nearestFirst   = "greatest(captured_at - ?::timestamptz, ?::timestamptz - captured_at)"

	// keyRunes is how much of a URL, and labelRunes how much of a label, stands in
	// an index; hostRunes bounds a host.
	keyRunes   = 512
	labelRunes = 255
	hostRunes  = 255
)

// completeness are the predicates of the three partial indexes.
var completeness = map[Completeness]string{
	CompletenessTrue:    "wacz_complete",
	CompletenessFalse:   "NOT wacz_complete",
	CompletenessUnknown: "wacz_complete IS NULL",
}

// statement builds the one statement that a filter asks for. Only what is asked
// for stands in it, so that the planner sees what an index can answer.
func (f *ArchiveFilter) statement(after Position, limit int32) (sql string, args []any) {
	var b statement
	if f.Near == nil {
		b.add(selectArchives)
		f.conditions(&b)
		b.add(newestFirst, after.CapturedAt, after.ID, limit)
		return b.sql.String(), b.args
	}
	// From the moment outwards: what is older and what is newer, each by the index,
	// and of the two the nearest.
	older, newer := around(*f.Near, after)
	b.add("SELECT " + archiveColumns + " FROM ((" + selectArchives)
	f.conditions(&b)
	b.add(newestFirst, older.CapturedAt, older.ID, limit)
	b.add(") UNION ALL (" + selectArchives)
	f.conditions(&b)
	b.add(oldestFirst, newer.CapturedAt, newer.ID, limit)
	b.add(")) AS near ORDER BY "+nearestFirst+", captured_at > ?::timestamptz", *f.Near, *f.Near, *f.Near)
	b.add(", CASE WHEN captured_at <= ?::timestamptz THEN id END DESC, id LIMIT ?", *f.Near, limit)
	return b.sql.String(), b.args
}

func (f *ArchiveFilter) conditions(b *statement) {
	if f.URL != nil {
		b.and(urlKey+" = ?", cut(*f.URL, keyRunes))
		b.and("source_url = ?", *f.URL)
	}
	if f.URLPrefix != nil {
		key := cut(*f.URLPrefix, keyRunes)
		b.and(urlKey+" >= ?", key)
		if end, ok := successor(key); ok {
			b.and(urlKey+" < ?", end)
		}
		b.and("starts_with(source_url, ?)", *f.URLPrefix)
	}
	if f.Host != nil {
		b.and("url_host(source_url) = ?", cut(strings.ToLower(strings.Trim(*f.Host, "[]")), hostRunes))
	}
	if f.Label != nil {
		b.and("label_keys(labels) @> ARRAY[?::text]", cut(*f.Label, labelRunes))
		b.and("labels @> ARRAY[?::text]", *f.Label)
	}
	if f.From != nil {
		b.and("captured_at >= ?", *f.From)
	}
	if f.To != nil {
		b.and("captured_at <= ?", *f.To)
	}
	if predicate := completeness[f.Complete]; predicate != "" {
		b.and(predicate)
	}
	if f.Crawl != nil {
		// The crawl's tasks first, and then each by the index: a join would read all
		// archives as long as there are not many.
		b.and("task_id = ANY(ARRAY(SELECT s.task_id FROM capture_submissions s WHERE s.crawl_id = ?))", *f.Crawl)
	}
	if f.Among != nil {
		b.and("id = ANY(?::uuid[])", f.Among)
	}
}

// statement is SQL in the making; each ? becomes the next parameter.
type statement struct {
	sql  strings.Builder
	args []any
}

func (b *statement) add(sql string, args ...any) {
	for _, arg := range args {
		before, rest, _ := strings.Cut(sql, "?")
		b.args = append(b.args, arg)
		b.sql.WriteString(before)
		b.sql.WriteString("$" + strconv.Itoa(len(b.args)))
		sql = rest
	}
	b.sql.WriteString(sql)
}

func (b *statement) and(condition string, args ...any) { b.add(condition+" AND ", args...) }

// around returns where the two halves of a list by distance go on behind a
// position: what is older than the moment downwards, and what is newer upwards.
func around(moment time.Time, after Position) (older, newer Position) {
	micros := 2*moment.UnixMicro() - after.CapturedAt.UnixMicro()
	micros = min(max(micros, earliest.UnixMicro()), latest.UnixMicro())
	// As far away, on the other side. With the smallest id, a row of that very time
	// is still to come when it is newer, and has come when it is older: of two that
	// are equally far, the older comes first.
	mirror := Position{CapturedAt: time.UnixMicro(micros).UTC(), ID: uuid.Nil}
	switch {
	case after.CapturedAt.After(moment):
		return mirror, after
	case after.CapturedAt.Equal(moment):
		// What was captured at the moment itself counts as older.
		mirror.ID = uuid.Max
	}
	return after, mirror
}

// The times that an archive can have.
var (
	earliest = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
)

// cut returns the first n characters, as the database counts them.
func cut(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// successor returns the first text after all that begin with prefix, by bytes;
// false where there is none.
func successor(prefix string) (string, bool) {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch last {
		case utf8.MaxRune:
			continue
		case 0xD7FF: // the surrogates are no characters
			last = 0xE000
		default:
			last++
		}
		return prefix + string(last), true
	}
	return "", false
}

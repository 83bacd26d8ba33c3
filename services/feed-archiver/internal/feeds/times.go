package feeds

import (
	"math"
	"strconv"
	"time"
)

// What a product says of its own issue is read strictly: a form that is not
// known, a sentinel or a word is no time at all, and never a guess.

// epochMillis reads milliseconds since 1970.
func epochMillis(value []byte) *time.Time {
	if kindOf(value) != '0' {
		return nil
	}
	ms, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(value), 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return nil
		}
		ms = int64(f)
	}
	return plausible(time.UnixMilli(ms))
}

// clock reads a text in the first of the layouts that fits; without a zone in
// it, as UTC.
func clock(s string, layouts ...string) *time.Time {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil {
			return plausible(t)
		}
	}
	return nil
}

// zoned reads an ISO 8601 time that states its zone.
func zoned(value []byte) *time.Time {
	if kindOf(value) != '"' {
		return nil
	}
	return clock(unquote(value), time.RFC3339, "2006-01-02T15:04:05.999Z0700")
}

// plausible drops years that no product of these feeds can mean. Old
// earthquakes have catalogue times, but nothing was issued before there were
// computers to issue it.
func plausible(t time.Time) *time.Time {
	if t.Year() < 1900 || t.Year() > 2200 {
		return nil
	}
	t = t.UTC()
	return &t
}

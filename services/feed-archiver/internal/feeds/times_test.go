package feeds

import (
	"testing"
	"time"
)

func show(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.Format(time.RFC3339Nano)
}

func TestEpochMillis(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"1781500050000": "2026-06-15T05:07:30Z", "1781500050123": "2026-06-15T05:07:30.123Z",
		"1.78150005e12": "2026-06-15T05:07:30Z", "1781500050000.0": "2026-06-15T05:07:30Z",
		"-2208988800000": "1900-01-01T00:00:00Z", "-2208988800001": "",
		"0.5": "", "9e99": "", "99999999999999999999": "", "null": "", `"1781500050000"`: "", "true": "", "": "",
	} {
		if got := show(epochMillis([]byte(value))); got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
}

func TestZoned(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"2024-07-18T12:47:00-07:00"`: "2024-07-18T19:47:00Z", `"2024-07-18T12:47:00+10:00"`: "2024-07-18T02:47:00Z",
		`"2024-09-27T09:00:00.000Z"`: "2024-09-27T09:00:00Z", `"2024-07-18T12:47:00"`: "", `"date:now -383 seconds"`: "",
		`""`: "", "null": "", "20240718": "", `"0001-01-01T00:00:00Z"`: "",
	} {
		if got := show(zoned([]byte(value))); got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
}

// TestAdvisoryTime has one line for each zone that the centers write.
func TestAdvisoryTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"800 PM PDT Fri Jul 17 2026":  "2026-07-18T03:00:00Z",
		"400 PM CDT Mon Jun 17 2024":  "2024-06-17T21:00:00Z",
		"1100 AM EDT Wed Aug 05 2026": "2026-08-05T15:00:00Z",
		"1200 AM AST Sat Aug 1 2026":  "2026-08-01T04:00:00Z",
		"1230 PM HST Sat Aug 1 2026":  "2026-08-01T22:30:00Z",
		"500 AM CVT Sat Aug 1 2026":   "2026-08-01T06:00:00Z",
		"1500 UTC Sat Aug 1 2026":     "2026-08-01T15:00:00Z",
		"0300 GMT Sat Aug 1 2026":     "2026-08-01T03:00:00Z",
		"1000 AM EST Mon Nov 2 2026":  "2026-11-02T15:00:00Z",
		"900 PM CST Mon Nov 2 2026":   "2026-11-03T03:00:00Z",
		"700 PM PST Mon Nov 2 2026":   "2026-11-03T03:00:00Z",
		"700 PM MST Mon Nov 2 2026":   "2026-11-03T02:00:00Z",
		"700 PM MDT Mon Nov 2 2026":   "2026-11-03T01:00:00Z",
		"240617/2100":                 "2024-06-17T21:00:00Z",
		"800 PM XYZ Fri Jul 17 2026":  "",
		"800 PM PDT Mon Jul 17 2026":  "", // was a Friday
		"1300 PM PDT Fri Jul 17 2026": "",
		"880 PM PDT Fri Jul 17 2026":  "",
		"2500 UTC Fri Jul 17 2026":    "",
		"":                            "",
	} {
		if got := show(advisoryTime(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestAcquired(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"2026-09-26", "0003", "2026-09-26T00:03:00Z"},
		{"2026-09-26", "3", "2026-09-26T00:03:00Z"},
		{"2026-09-26", "2359", "2026-09-26T23:59:00Z"},
		{"2026-09-26", "2400", ""},
		{"2026-09-26", "00003", ""},
		{"26/09/2026", "0003", ""},
	} {
		if got := show(acquired(c[0], c[1])); got != c[2] {
			t.Errorf("%s %s: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	task     = "5d20d20c-9831-4b3a-9b9b-5b62d72f22c0"
	dialectA = `{"taskId":"` + task + `","url":"http://x/","labels":["a"],"status":"success","timestamp":"2026-11-30T17:39:05.319Z","captureProcessingTimeMs":5,"retryCount":0,"workerIndex":0,"artifacts":{"wacz":"s3://browserhive/a b+c%%2F#d.wacz"}%s}`
	dialectB = `{"taskId":"` + task + `","url":"http://x/","status":"CAPTURE_STATUS_SUCCESS","timestamp":"2026-11-30T17:39:05.319Z","captureProcessingTimeMs":"5","artifacts":{"wacz":"s3://b/k"}%s}`
	dialectC = `{"taskId":"` + task + `","url":"http://x/","status":"success","timestamp":"2026-11-30T17:39:05.319Z","captureProcessingTimeMs":5,"artifacts":{"wacz":"s3://b/k"}%s}`
)

// three says what became of a three-valued field.
func three(v *bool) string {
	if v == nil {
		return "null"
	}
	return strconv.FormatBool(*v)
}

func TestParseRecognisesTheDialectByContent(t *testing.T) {
	t.Parallel()
	for want, body := range map[Dialect]string{DialectA: dialectA, DialectB: dialectB, DialectC: dialectC} {
		m, err := Parse([]byte(fmt.Sprintf(body, `,"aFieldOfTomorrow":{"x":[1]}`)))
		if err != nil {
			t.Fatalf("dialect %s: %v", want, err)
		}
		if m.Dialect != want || m.Status != StatusSuccess || m.TaskID.String() != task || m.WACZ == nil {
			t.Errorf("dialect %s: got %+v", want, m)
		}
	}
	m, err := Parse([]byte(fmt.Sprintf(dialectA, "")))
	if err != nil {
		t.Fatal(err)
	}
	if m.WACZ.Key != "a b+c%2F#d.wacz" {
		t.Errorf("the key was changed on its way: %q", m.WACZ.Key)
	}
}

func TestT09CompletenessIsWhatTheManifestSaid(t *testing.T) {
	t.Parallel()
	cases := []struct{ body, more, complete, signed string }{
		{dialectA, ``, "null", "null"},
		{dialectB, ``, "null", "null"},
		{dialectC, ``, "null", "null"},
		{dialectB, `,"completeness":{"bodylessUrls":["http://x/"]},"signature":{"reason":"off"}`, "false", "false"},
		{dialectB, `,"completeness":{},"signature":{}`, "false", "false"},
		{dialectC, `,"completeness":{"complete":true},"signature":{"signed":true}`, "true", "true"},
		{dialectA, `,"completeness":{"bodylessUrls":[],"truncatedUrls":[],"complete":false}`, "false", "null"},
		{dialectC, `,"completeness":{"bodylessUrls":["http://x/"]}`, "null", "null"},
		{dialectC, `,"completeness":null,"signature":null`, "null", "null"},
	}
	for _, c := range cases {
		m, err := Parse([]byte(fmt.Sprintf(c.body, c.more)))
		if err != nil {
			t.Errorf("%s: %v", c.more, err)
			continue
		}
		if three(m.Complete) != c.complete || three(m.Signed) != c.signed {
			t.Errorf("%s %s: complete %s, signed %s; want %s, %s", m.Dialect, c.more, three(m.Complete), three(m.Signed), c.complete, c.signed)
		}
	}
}

func TestParseRefusesWithPathAndRule(t *testing.T) {
	t.Parallel()
	good := fmt.Sprintf(dialectC, "")
	cases := map[string]string{
		`<!DOCTYPE html><title>Log in</title>`: "$: must be one whole JSON object",
		good[:60]:                              "$: must be one whole JSON object",
		good + good:                            "$: must be one whole JSON object",
		`[]`:                                   "$: must be an object",
		"\xff" + good:                          "$: must be UTF-8",
		strings.Replace(good, "success", "done", 1):                                          "$.status: must be a status",
		strings.Replace(good, `"success"`, `7`, 1):                                           "$.status: must be a text",
		strings.Replace(good, task, "{"+task+"}", 1):                                         "$.taskId: must be a UUID",
		strings.Replace(good, `"taskId"`, `"taskid"`, 1):                                     "$.taskId: is required",
		strings.Replace(good, "2026-11-30T", "2026-11-30 ", 1):                               "$.timestamp: must be an RFC 3339 time",
		strings.Replace(good, "http://x/", "file:///etc", 1):                                 "$.url: must be an http(s) URL",
		strings.Replace(good, `:5,`, `:-5,`, 1):                                              "$.captureProcessingTimeMs: must be a number",
		strings.Replace(good, `:5,`, `:"5",`, 1):                                             "$.captureProcessingTimeMs: must be a number",
		strings.Replace(good, "s3://b/k", "https://b/k", 1):                                  "$.artifacts.wacz: must be an s3:// location",
		fmt.Sprintf(dialectC, `,"status":"failed"`):                                          "$.status: stands twice",
		fmt.Sprintf(dialectC, `,"labels":["a",null]`):                                        "$.labels[1]: must be a text",
		fmt.Sprintf(dialectC, `,"labels":["a\u0000"]`):                                       "$.labels[0]: must not hold NUL",
		fmt.Sprintf(dialectC, `,"completeness":[]`):                                          "$.completeness: must be an object",
		fmt.Sprintf(dialectC, `,"completeness":{"complete":"yes"}`):                          "$.completeness.complete: must be true or false",
		strings.Replace(fmt.Sprintf(dialectA, ""), `"success"`, `"httpError"`, 1)[:60] + `}`: "$: must be one whole JSON object",
		strings.Replace(good, `"success"`, `"httpError"`, 1):                                 "$.labels: is required",
	}
	for body, want := range cases {
		_, err := Parse([]byte(body))
		var refused *Error
		if !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80s…\n got %v\nwant %s", body, err, want)
		}
	}
}

func TestParseLocation(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "s3://", "s3://b", "s3://b/", "s3:///k", "S3://b/k", "http://b/k", "s3://b/" + strings.Repeat("k", 1025), "s3://b/a\x00"} {
		if _, err := ParseLocation(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	got, err := ParseLocation("s3://b/org/acme/a%20b c?#d")
	if err != nil || got != (Location{"b", "org/acme/a%20b c?#d"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// The nine captures that a real BrowserHive made.
func TestParseRealCaptures(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(captures(t), "*.result.json"))
	if err != nil || len(files) != 9 {
		t.Fatalf("%d manifests, %v", len(files), err)
	}
	statuses := map[Status]int{}
	incomplete := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(data)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
			continue
		}
		statuses[m.Status]++
		if m.Dialect != DialectA || (m.WACZ != nil) != (m.Status == StatusSuccess) || !strings.HasPrefix(filepath.Base(file), m.TaskID.String()) {
			t.Errorf("%s: %+v", filepath.Base(file), m)
		}
		if three(m.Complete) == "false" {
			incomplete++
		}
	}
	if statuses[StatusSuccess] != 6 || statuses[StatusHTTPError] != 1 || statuses[StatusFailed] != 1 || statuses[StatusTimeout] != 1 || incomplete != 1 {
		t.Errorf("statuses %v, incomplete %d", statuses, incomplete)
	}
}

// captures finds ../shared/captures beside the repository.
func captures(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		found := filepath.Join(dir, "shared", "captures")
		if _, err := os.Stat(found); err == nil {
			return found
		}
	}
	t.Skip("../shared/captures is not here; it lies beside the repository's checkout")
	return ""
}

func FuzzParse(f *testing.F) {
	for _, body := range []string{dialectA, dialectB, dialectC} {
		f.Add([]byte(fmt.Sprintf(body, `,"completeness":{"complete":false}`)))
	}
	f.Add([]byte(`{"status":"success","taskId":"\ud800"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		var refused *Error
		if err != nil {
			if !errors.As(err, &refused) || !strings.HasPrefix(refused.Path, "$") || refused.Rule == "" {
				t.Fatalf("an error without path and rule: %v", err)
			}
			return
		}
		if strings.ContainsRune(m.URL, 0) || m.Timestamp.Nanosecond()%1000 != 0 {
			t.Fatalf("not storable: %+v", m)
		}
		if m.WACZ != nil && (m.WACZ.Bucket == "" || m.WACZ.Key == "") {
			t.Fatalf("a location without bucket or key: %+v", m.WACZ)
		}
	})
}

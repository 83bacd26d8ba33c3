package archive

import (
	"strings"
	"testing"
)

// What is taken out of an item, and how the body says so.
func TestWithoutFields(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body  string
		paths []string
		want  string
	}{
		"at the root":                {`{"a":1,"b":2}`, []string{"a"}, `{"b":2,"_archive_removed_fields":["a"]}`},
		"below it":                   {`{"p":{"user":"x","v":1},"user":"kept"}`, []string{"p.user"}, `{"p":{"v":1},"user":"kept","_archive_removed_fields":["p.user"]}`},
		"only at its path":           {`{"q":{"p":{"user":"kept"}}}`, []string{"p.user"}, `{"q":{"p":{"user":"kept"}}}`},
		"through arrays":             {`{"l":[{"user":"x"},[{"user":"y"}],1]}`, []string{"l.user"}, `{"l":[{},[{}],1],"_archive_removed_fields":["l.user"]}`},
		"at any depth":               {`{"user":1,"p":{"user":2,"q":[{"user":{"user":3}}]}}`, []string{"**.user"}, `{"p":{"q":[{}]},"_archive_removed_fields":["p.q.user","p.user","user"]}`},
		"in the order of names":      {`{"b":1,"a":2}`, []string{"b", "a"}, `{"_archive_removed_fields":["a","b"]}`},
		"a whole object":             {`{"p":{"user":"x"},"v":[]}`, []string{"p"}, `{"v":[],"_archive_removed_fields":["p"]}`},
		"a name written by escapes":  {`{"\u0061":1,"v":2}`, []string{"a"}, `{"v":2,"_archive_removed_fields":["a"]}`},
		"nothing that is there":      {`{"v":{"_archive_removed_fields":1}}`, []string{"a", "**.b"}, `{"v":{"_archive_removed_fields":1}}`},
		"an array":                   {`[{"a":1},2]`, []string{"b"}, `[{"a":1},2]`},
		"a number as it was written": {`{"a":1,"v":1.0e2}`, []string{"a"}, `{"v":1.0e2,"_archive_removed_fields":["a"]}`},
	} {
		got, err := withoutFields([]byte(c.body), c.paths)
		if err != nil || strings.TrimSuffix(string(got), "\n") != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
	for name, body := range map[string]string{
		"a list of its own": `{"_archive_removed_fields":[]}`, "two values": `{} {}`, "a duplicate name": `{"p":{"v":1,"v":2}}`,
		"no end": `{"a":[1`, "nothing": ``,
	} {
		if got, err := withoutFields([]byte(body), []string{"a"}); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}

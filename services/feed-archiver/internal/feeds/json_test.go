package feeds

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestMember(t *testing.T) {
	t.Parallel()
	doc, err := document([]byte("\xef\xbb\xbf {\"a\" : {\"b\": [1, {\"c\":\"]}\\\"\"}] , \"B\":-1.50e+2}, \"\\u0061b\":null,\"a b\":\"x\",\"dup\":1,\"dup\":2}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path []string
		want string
	}{
		{[]string{"a", "B"}, "-1.50e+2"},
		{[]string{"a", "b"}, `[1, {"c":"]}\""}]`},
		{[]string{"ab"}, "null"},
		{[]string{"a b"}, `"x"`},
		{[]string{"dup"}, "2"},
		{[]string{"A"}, ""},
		{[]string{"a", "b", "c"}, ""},
		{[]string{"a b", "x"}, ""},
		{nil, string(doc)},
	} {
		if got := member(doc, c.path...); string(got) != c.want {
			t.Errorf("%v: %s, want %s", c.path, got, c.want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"a"`: "a", `"\u00e9\n"`: "é\n", "-99": "-99", "1.0": "1.0", "null": "", "true": "", "[1]": "", "{}": "", "": "",
		"\"\xff\"": "\ufffd",
	} {
		if got := text([]byte(value)); got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
}

// FuzzJSON compares what is found inside a document with what encoding/json
// finds, and that nothing is found outside of one.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,{"b":"c\"d"}],"e":null}`, ` [ "x" , -1.5e3 , true ] `, `{"a":1,"a":2}`, `[]`, `{}`, `"\\"`, "{\"\xff\":1}", `[[[]]]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		doc, err := document(body)
		if err != nil {
			return
		}
		var values []json.RawMessage
		if json.Unmarshal(doc, &values) == nil && kindOf(doc) == '[' {
			i := 0
			for got := range elements(doc) {
				if !bytes.Equal(got, values[i]) {
					t.Fatalf("element %d of %q is %q, want %q", i, doc, got, values[i])
				}
				i++
			}
			if i != len(values) {
				t.Fatalf("%d elements of %q, want %d", i, doc, len(values))
			}
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(doc, &object) == nil && kindOf(doc) == '{' {
			for name, want := range object {
				if !bytes.Contains(doc, []byte(`"`+name+`"`)) {
					continue // escaped, or replaced because it was not UTF-8
				}
				if got := member(doc, name); !bytes.Equal(got, want) {
					t.Fatalf("member %q of %q is %q, want %q", name, doc, got, want)
				}
			}
		}
	})
}

package canonjson_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/muniment/muniment/services/feed-archiver/internal/canonjson"
)

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestT40SameJSONSameHash(t *testing.T) {
	t.Parallel()
	got, err := canonjson.Canonical([]byte(`{"b":[1.0,1e2,-0,1E21,1e-7,333333333.33333329],"a":"é\u00e9<&>\/"}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"a":"éé<&>/","b":[1,100,0,1e+21,1e-7,333333333.3333333]}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if h := hash(got); h != "f0e9f230e730d67a5abc91e9c9a339a3aa8f7bc1419c9ba1c8389149c9eb55fb" {
		t.Errorf("hash %s", h)
	}
}

func TestT41NulInAText(t *testing.T) {
	t.Parallel()
	got, err := canonjson.Canonical([]byte(`{"id":"x","headline":"a\u0000b"}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 32 || hash(got) != "f31da7ae3cb1927af2f22708128d3bebe4daaddbd79576513ad67702fab84410" {
		t.Errorf("got %q (%d bytes), hash %s", got, len(got), hash(got))
	}
}

// The RFC's own examples, and what implementations get wrong.
func TestVectors(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`: `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		// Names are sorted by UTF-16 code units: the pair of U+1F600 begins with D83D, before FB33.
		"{\"\\u20ac\":1,\"\\r\":2,\"\\ufb33\":3,\"1\":4,\"\\ud83d\\ude00\":5,\"\\u0080\":6,\"\\u00f6\":7}": "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}",
		`-0`:                       `0`,
		`-0.0`:                     `0`,
		`0e99999`:                  `0`,
		`9007199254740992`:         `9007199254740992`,
		`100000000000000000000000`: `1e+23`,
		`[1.0, 1]`:                 `[1,1]`,
		`-6.88020000000000`:        `-6.8802`,
		"\xef\xbb\xbf{}":           `{}`,
		" [ ] ":                    `[]`,
		`"\u2028\u007f"`:           "\"\u2028\u007f\"",
	} {
		got, err := canonjson.Canonical([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestMeaningIsKept(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"integer past 2^53":         `{"id":9007199254740993}`,
		"negative integer":          `[-9007199254740993]`,
		"20 digits":                 `12345678901234567890`,
		"overflow":                  `1e400`,
		"integer overflow":          strings.Repeat("9", 400),
		"underflow":                 `{"v":1e-400}`,
		"negative underflow":        `-0.0000001e-399`,
		"duplicate name":            `{"a":1,"a":2}`,
		"duplicate by escape":       `{"a":1,"\u0061":2}`,
		"duplicate deep":            `[{"x":{"a":1,"a":1}}]`,
		"lone high surrogate":       `"\ud800"`,
		"lone low surrogate":        `["\udc00x"]`,
		"surrogates in wrong order": `"\udc00\ud800"`,
		"invalid UTF-8":             "{\"a\":\"\xff\"}",
	} {
		if got, err := canonjson.Canonical([]byte(in)); !errors.Is(err, canonjson.ErrMeaning) {
			t.Errorf("%s: got %q, %v; want ErrMeaning", name, got, err)
		}
	}
	// Digits inside a text are no numbers.
	if _, err := canonjson.Canonical([]byte(`{"a":"9007199254740993 \" 1e400"}`)); err != nil {
		t.Errorf("digits in a text: %v", err)
	}
}

func TestNotJSON(t *testing.T) {
	t.Parallel()
	for _, in := range []string{``, `{`, `{"a":1`, `[1] [2]`, `{"a":01}`, `<html>`, `nul`, `{"a":1}x`, `'a'`, `NaN`, "\"a\x00b\"", `{"a":1,}`} {
		if got, err := canonjson.Canonical([]byte(in)); !errors.Is(err, canonjson.ErrSyntax) {
			t.Errorf("%q: got %q, %v; want ErrSyntax", in, got, err)
		}
	}
}

func TestInputStaysAsItWas(t *testing.T) {
	t.Parallel()
	in := []byte(`{"b" : 1.0, "a":"\u00e9"}`)
	before := string(in)
	if _, err := canonjson.Canonical(in); err != nil {
		t.Fatal(err)
	}
	if string(in) != before {
		t.Errorf("the input was changed to %s", in)
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":[1.0,-0],"a":"\u00e9"}`, `9007199254740993`, `"\ud800"`, `{"a":1,"a":2}`, "\xef\xbb\xbf[1e400]", `1e-400`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := canonjson.Canonical(in)
		if err != nil {
			if !errors.Is(err, canonjson.ErrMeaning) && !errors.Is(err, canonjson.ErrSyntax) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		twice, err := canonjson.Canonical(once)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("the canonical form of %q is %q, whose canonical form is %q, %v", in, once, twice, err)
		}
	})
}

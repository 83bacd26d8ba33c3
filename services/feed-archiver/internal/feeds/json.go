package feeds

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
)

// The functions here find values inside a JSON document without decoding it:
// an item has to reach the archive in the very bytes that came in, and the
// page's buffer is all the memory that a split may cost. Only document checks
// the syntax; the others may be given nothing that did not come out of it.

var byteOrderMark = []byte("\xef\xbb\xbf")

// document checks that a body is one JSON value and returns that value.
func document(body []byte) ([]byte, error) {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, byteOrderMark))
	switch {
	case len(body) == 0:
		return nil, refused("the body is empty")
	case body[0] == '<':
		return nil, refused("a web page or other markup in place of JSON")
	case !json.Valid(body):
		return nil, refused("the body is not JSON, or is cut off")
	}
	return body, nil
}

// kindOf returns the byte that a value begins with: { [ " t f n or a digit.
func kindOf(value []byte) byte {
	if len(value) == 0 {
		return 0
	}
	if c := value[0]; c != '-' && (c < '0' || c > '9') {
		return c
	}
	return '0'
}

// member returns the value at a path of names, or nil where there is none. Of
// a name that stands twice the last one counts, as for most readers; the
// archive keeps such an item as text. Names are compared exactly.
func member(value []byte, path ...string) []byte {
	for _, name := range path {
		var found []byte
		for n, v := range members(value) {
			if isNamed(n, name) {
				found = v
			}
		}
		value = found
	}
	return value
}

// isNamed compares a quoted name, without decoding it where it is plain.
func isNamed(quoted []byte, name string) bool {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == name
	}
	return unquote(quoted) == name
}

// members iterates over an object's names, still quoted, and values; over
// nothing when the value is not an object.
func members(value []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		if kindOf(value) != '{' {
			return
		}
		for rest := skipSpace(value[1:]); rest[0] != '}'; {
			end := valueEnd(rest)
			name := rest[:end]
			rest = skipSpace(skipSpace(rest[end:])[1:]) // the colon
			end = valueEnd(rest)
			if !yield(name, rest[:end]) {
				return
			}
			rest = skipComma(rest[end:])
		}
	}
}

// elements iterates over an array's values; over nothing when the value is not
// an array.
func elements(value []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if kindOf(value) != '[' {
			return
		}
		for rest := skipSpace(value[1:]); rest[0] != ']'; {
			end := valueEnd(rest)
			if !yield(rest[:end:end]) {
				return
			}
			rest = skipComma(rest[end:])
		}
	}
}

func skipSpace(b []byte) []byte {
	for i, c := range b {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return b[i:]
		}
	}
	return nil
}

func skipComma(b []byte) []byte {
	b = skipSpace(b)
	if b[0] == ',' {
		return skipSpace(b[1:])
	}
	return b
}

// valueEnd returns the length of the value that b begins with.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += stringEnd(b[i:]) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth == 0 {
				return i + scalarEnd(b[i:])
			}
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(b)
}

// stringEnd returns the length of the string that b begins with, quotes included.
func stringEnd(b []byte) int {
	for i := 1; ; {
		quote := bytes.IndexByte(b[i:], '"')
		if quote < 0 {
			return len(b)
		}
		i += quote + 1
		if backslashes(b[1:i-1])%2 == 0 {
			return i
		}
	}
}

// backslashes counts those that b ends with; an odd number escapes what follows.
func backslashes(b []byte) int {
	return len(b) - len(bytes.TrimRight(b, `\`))
}

// scalarEnd returns the length of the number or the word that b begins with.
func scalarEnd(b []byte) int {
	if end := bytes.IndexAny(b, ",]} \t\r\n"); end >= 0 {
		return end
	}
	return len(b)
}

// unquote decodes a JSON string.
func unquote(value []byte) string {
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(bytes.ToValidUTF8(inner, []byte("\ufffd")))
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

// text returns a string's content or a number's spelling, and "" for anything
// else: identifiers come in both forms.
func text(value []byte) string {
	switch kindOf(value) {
	case '"':
		return unquote(value)
	case '0':
		return string(value)
	}
	return ""
}

// number reads a count or a code; 0 for what is none.
func number(value []byte) int {
	n, err := strconv.Atoi(text(value))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Package canonjson gives a JSON text its one canonical spelling, RFC 8785, and
// tells when that spelling would not mean the same. It knows nothing of feeds.
//
// RFC 8785 takes every number for a double. A spelling may change (1.0 becomes
// 1, 0.10 becomes 0.1); a value may not: where it would, Canonical returns
// ErrMeaning and the caller keeps the text as it came.
package canonjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	// ErrMeaning says that the text is JSON, and that its canonical spelling
	// would say something else or leave something open.
	ErrMeaning = errors.New("RFC 8785 would change its meaning")
	// ErrSyntax says that the text is not one JSON value.
	ErrSyntax = errors.New("not one JSON value")
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// TrimBOM drops a leading UTF-8 byte order mark, which is not part of JSON.
func TrimBOM(text []byte) []byte { return bytes.TrimPrefix(text, byteOrderMark) }

// Canonical returns the canonical form of one JSON value. A leading byte order
// mark is skipped. It does not change text. The error wraps ErrMeaning or
// ErrSyntax.
func Canonical(text []byte) ([]byte, error) {
	text = TrimBOM(text)
	v := jsontext.Value(bytes.Clone(text))
	// Strict: a duplicate name, invalid UTF-8 or a lone surrogate is an error.
	if err := v.Canonicalize(); err != nil {
		return nil, classify(text, err)
	}
	if err := checkNumbers(text); err != nil {
		return nil, err
	}
	return v, nil
}

// classify tells a text that is no JSON from one that only strict readers
// refuse.
func classify(text []byte, strict error) error {
	dec := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := dec.SkipValue(); err != nil {
		return fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows it", ErrSyntax)
	}
	return fmt.Errorf("%w: %w", ErrMeaning, strict)
}

// checkNumbers looks at every number literal of a valid JSON text.
func checkNumbers(text []byte) error {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			i = afterString(text, i)
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(text) && isNumberByte(text[end]) {
				end++
			}
			if err := checkNumber(string(text[i:end])); err != nil {
				return err
			}
			i = end
		default:
			i++
		}
	}
	return nil
}

func afterString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return i
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// maxExactDigits is how many decimal digits every double holds exactly.
const maxExactDigits = 15

func checkNumber(literal string) error {
	digits := literal
	if digits[0] == '-' {
		digits = digits[1:]
	}
	integer := true
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			integer = false
			break
		}
	}
	if integer && len(digits) <= maxExactDigits {
		return nil
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil || math.IsInf(f, 0) {
		return fmt.Errorf("%w: the number %.40s overflows a double", ErrMeaning, literal)
	}
	if integer {
		return checkInteger(literal, f)
	}
	if f == 0 && !isZero(digits) {
		return fmt.Errorf("%w: the number %.40s becomes 0", ErrMeaning, literal)
	}
	return nil
}

// checkInteger compares the literal with the value that its canonical spelling
// states: the shortest decimal that reads back as the same double.
func checkInteger(literal string, f float64) error {
	want, ok := new(big.Int).SetString(literal, 10)
	if !ok {
		return fmt.Errorf("%w: reading the integer %.40s", ErrSyntax, literal)
	}
	said, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64))
	if !ok || !said.IsInt() || said.Num().Cmp(want) != 0 {
		return fmt.Errorf("%w: the integer %.40s has no double of its own", ErrMeaning, literal)
	}
	return nil
}

// isZero says whether the mantissa holds nothing but zeros.
func isZero(digits string) bool {
	for i := range len(digits) {
		switch c := digits[i]; {
		case c == 'e' || c == 'E':
			return true
		case c >= '1' && c <= '9':
			return false
		}
	}
	return true
}

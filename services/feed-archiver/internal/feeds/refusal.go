package feeds

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrRefused is in every error of a Split: the body is not, or not all of, what
// the source publishes. Its text is the reason that is kept with the failed
// read; it repeats nothing of the body that could be a key or a person's name.
var ErrRefused = errors.New("not this feed's body")

type refusal struct{ cause error }

func (r refusal) Error() string        { return r.cause.Error() }
func (r refusal) Unwrap() error        { return r.cause }
func (r refusal) Is(target error) bool { return target == ErrRefused }

func refused(format string, args ...any) error {
	return refusal{fmt.Errorf(format, args...)}
}

var (
	errNoName  = errors.New("is missing or empty")
	errBadName = errors.New("holds a NUL, is not UTF-8 or is too long")
)

// longestName is far beyond any identifier of the feeds, and within what the
// database can index.
const longestName = 512

// checkName says whether a text can be a product id or an item key.
func checkName(s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return errNoName
	case len(s) > longestName || strings.ContainsRune(s, 0) || !utf8.ValidString(s):
		return errBadName
	}
	return nil
}

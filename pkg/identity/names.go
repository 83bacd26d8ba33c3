package identity

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The engine counts bytes: 512 for a user, 256 for an object. An organization
// is both, so the smaller bound holds.
const (
	maxSubjectBytes      = 512 - len("user:")
	maxOrganizationBytes = 256 - len("organization:")
)

// CheckSubject says why a text cannot be an engine user; nil when it can. The
// error states the rule and not the text.
func CheckSubject(subject string) error {
	return checkName(subject, maxSubjectBytes)
}

// CheckOrganization says why a text cannot be an organization's name; nil when
// it can. Organizations also stand in object keys, hence the slashes and dots.
func CheckOrganization(name string) error {
	if err := checkName(name, maxOrganizationBytes); err != nil {
		return err
	}
	if strings.ContainsAny(name, `/\`) {
		return errors.New(`must not contain '/' or '\'`)
	}
	if strings.Trim(name, ".") == "" {
		return errors.New("must not consist of dots only")
	}
	return nil
}

func checkName(s string, limit int) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case len(s) > limit:
		return fmt.Errorf("must be at most %d bytes", limit)
	case !utf8.ValidString(s):
		return errors.New("must be valid UTF-8")
	case strings.ContainsAny(s, ":#@*"):
		return errors.New("must not contain ':', '#', '@' or '*'")
	case strings.ContainsFunc(s, unicode.IsSpace):
		return errors.New("must not contain white space")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("must not contain control characters")
	}
	return nil
}

// Package manifest reads what BrowserHive wrote about one capture, in the three
// dialects that are in buckets today. It is pure: bytes in, a Manifest or an
// Error out. It decides nothing about admission and touches no store.
//
// The dialect is recognised by content and never configured. A field that no
// dialect knows passes; a field that is known must be what it should be,
// because a manifest decides what is signed for readers later.
package manifest

import (
	"time"

	"github.com/google/uuid"
)

// MaxBytes bounds a manifest; one that is larger is no manifest.
const MaxBytes = 1 << 20

// Dialect is one of the spellings of a manifest.
type Dialect string

// The dialects, by BrowserHive's versions.
const (
	DialectA Dialect = "A" // up to v2
	DialectB Dialect = "B" // v3 to v11, protobuf JSON: fields at their zero value are dropped
	DialectC Dialect = "C" // v12 and later
)

// Status is how a capture ended, in one spelling for all dialects.
type Status string

// The statuses.
const (
	StatusSuccess   Status = "success"
	StatusFailed    Status = "failed"
	StatusTimeout   Status = "timeout"
	StatusHTTPError Status = "http_error"
)

// Manifest is one capture's result.
type Manifest struct {
	Dialect       Dialect
	TaskID        uuid.UUID
	CorrelationID *string
	URL           string
	Labels        []string
	Status        Status
	// Timestamp is BrowserHive's own time of the capture, UTC, cut to
	// microseconds.
	Timestamp time.Time
	// WACZ is where the archive is; nil where none was taken.
	WACZ *Location
	// Complete and Signed are three-valued: nil is 'the manifest does not say'.
	Complete *bool
	Signed   *bool
	// ErrorMessage is what went wrong, in BrowserHive's words; empty on success.
	ErrorMessage string
}

// Error says why bytes are no manifest: where (a JSON path), and which rule.
type Error struct {
	Path, Rule string
}

func (e *Error) Error() string { return e.Path + ": " + e.Rule }

// Parse reads one manifest.
func Parse(data []byte) (Manifest, error) {
	root, err := parseRoot(data)
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if m.Dialect, m.Status, err = recognise(root); err != nil {
		return Manifest{}, err
	}
	for _, read := range []func(object, *Manifest) error{
		readRequired, readIdentity, readArtifacts, readCompleteness, readSignature, readErrorDetails,
	} {
		if err := read(root, &m); err != nil {
			return Manifest{}, err
		}
	}
	return m, nil
}

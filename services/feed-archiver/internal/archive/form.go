package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/muniment/muniment/services/feed-archiver/internal/canonjson"
)

// Encodings of a stored text.
const (
	encodingJSON   = "json"
	encodingText   = "text"
	encodingBase64 = "base64"
)

// ErrItem says that an item cannot be kept, and with it its read.
var ErrItem = errors.New("an item cannot be kept")

// form returns the text under which an item is stored, and what it is: the
// canonical JSON of a JSON item, or the item as received. A JSON item that RFC
// 8785 would change in meaning is kept as received, unless fields were to be
// removed from it: what may not be stored cannot be kept as it came.
func form(item Item, removed []string) (text []byte, encoding string, err error) {
	if item.Kind != JSON {
		return verbatim(item.Body, item.Kind)
	}
	body := canonjson.TrimBOM(item.Body)
	if len(removed) > 0 {
		if body, err = withoutFields(body, removed); err != nil {
			return nil, "", fmt.Errorf("%w: removing fields from %s: %w", ErrItem, quote(item.ProductID), err)
		}
	}
	canonical, err := canonjson.Canonical(body)
	switch {
	case err == nil:
		return canonical, encodingJSON, nil
	case errors.Is(err, canonjson.ErrMeaning) && len(removed) == 0:
		return verbatim(body, Text)
	}
	return nil, "", fmt.Errorf("%w: %s: %w", ErrItem, quote(item.ProductID), err)
}

// verbatim keeps bytes as text where the database can hold them as such.
func verbatim(body []byte, kind Kind) (text []byte, encoding string, err error) {
	if kind == Text && utf8.Valid(body) && bytes.IndexByte(body, 0) < 0 {
		return body, encodingText, nil
	}
	return base64.StdEncoding.AppendEncode(nil, body), encodingBase64, nil
}

// hashOf is the SHA-256 of a stored text, as it stands in the row.
func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// maxName bounds product ids and item keys; the database holds the same bound.
const maxName = 1024

func checkName(what, name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("%w: a %s of %d bytes is over the limit of %d", ErrItem, what, len(name), maxName)
	case !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: the %s %s holds NUL or is not UTF-8", ErrItem, what, quote(name))
	}
	return nil
}

// quote shortens a name for a reason that people read.
func quote(name string) string { return fmt.Sprintf("%.80q", name) }

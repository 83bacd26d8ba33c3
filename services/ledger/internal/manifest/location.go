package manifest

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Location is where an object is.
type Location struct {
	Bucket, Key string
}

// maxKeyBytes is S3's own limit.
const maxKeyBytes = 1024

// ParseLocation reads s3://bucket/key. The key is everything after the bucket's
// slash, exactly: it is a key and not a URL, so it is never percent-decoded,
// and '?', '#', '+' and '%' are letters like others.
func ParseLocation(uri string) (Location, error) {
	rest, ok := strings.CutPrefix(uri, "s3://")
	if !ok {
		return Location{}, errors.New("must be an s3:// location")
	}
	bucket, key, _ := strings.Cut(rest, "/")
	switch {
	case bucket == "":
		return Location{}, errors.New("must name a bucket")
	case key == "":
		return Location{}, errors.New("must name a key")
	case len(key) > maxKeyBytes:
		return Location{}, errors.New("has a key of over 1024 bytes")
	case !utf8.ValidString(uri) || strings.ContainsRune(uri, 0):
		return Location{}, errors.New("must be UTF-8 without NUL")
	}
	return Location{Bucket: bucket, Key: key}, nil
}

package sink

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Tokens issues and checks the bearer tokens by which a browser may put files
// into one crawl's folder, and nothing else: "<expiry>.<mac>", where expiry is
// in Unix seconds and mac is HMAC-SHA-256 over the crawl id and the expiry.
type Tokens struct {
	secret []byte
}

// NewTokens returns tokens under the installation's secret, at least 32 bytes.
func NewTokens(secret []byte) Tokens { return Tokens{secret: secret} }

// Issue returns a token for one crawl, good until expiry (whole seconds).
func (t Tokens) Issue(crawl uuid.UUID, expiry time.Time) string {
	seconds := expiry.Unix()
	return strconv.FormatInt(seconds, 10) + "." + base64.RawURLEncoding.EncodeToString(t.mac(crawl, seconds))
}

// Valid says whether token opens the crawl's folder now. It never says why not.
func (t Tokens) Valid(token string, crawl uuid.UUID, now time.Time) bool {
	digits, encoded, ok := strings.Cut(token, ".")
	if !ok {
		return false
	}
	seconds, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != digits {
		return false
	}
	given, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return false
	}
	// The comparison comes before the clock: an expired token and a forged one
	// take the same path as far as a caller can measure.
	genuine := hmac.Equal(given, t.mac(crawl, seconds))
	return genuine && now.Unix() < seconds
}

func (t Tokens) mac(crawl uuid.UUID, seconds int64) []byte {
	h := hmac.New(sha256.New, t.secret)
	// The purpose keeps this secret's MACs apart from any other use of it.
	h.Write([]byte("muniment sink token v1\x00"))
	h.Write(crawl[:])
	_ = binary.Write(h, binary.BigEndian, seconds) // a hash never fails
	return h.Sum(nil)
}

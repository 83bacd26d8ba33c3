package sink

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestTokenOpensOneCrawlUntilItsExpiry(t *testing.T) {
	t.Parallel()
	tokens := NewTokens([]byte(strings.Repeat("k", 32)))
	crawl, now := uuid.New(), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	token := tokens.Issue(crawl, now.Add(time.Hour))

	if !tokens.Valid(token, crawl, now) || !tokens.Valid(token, crawl, now.Add(time.Hour-time.Second)) {
		t.Fatal("a good token is refused")
	}
	digits, mac, _ := strings.Cut(token, ".")
	for name, valid := range map[string]bool{
		"another crawl":  tokens.Valid(token, uuid.New(), now),
		"expired":        tokens.Valid(token, crawl, now.Add(time.Hour)),
		"another secret": NewTokens([]byte(strings.Repeat("x", 32))).Valid(token, crawl, now),
		"later expiry":   tokens.Valid("9"+token, crawl, now),
		"plus sign":      tokens.Valid("+"+token, crawl, now),
		"leading zero":   tokens.Valid("0"+token, crawl, now),
		"cut mac":        tokens.Valid(digits+"."+mac[:20], crawl, now),
		"no mac":         tokens.Valid(digits+".", crawl, now),
		"empty":          tokens.Valid("", crawl, now),
	} {
		if valid {
			t.Errorf("%s: accepted", name)
		}
	}
}

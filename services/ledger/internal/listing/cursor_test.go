package listing_test

import (
	"context"
	"encoding/base64"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/services/ledger/internal/listing"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// asking notes the times that the engine was asked for.
type asking struct {
	*words
	at *[]time.Time
}

func (a *asking) BatchCheck(ctx context.Context, queries []fga.Query) ([]bool, error) {
	for _, q := range queries {
		if len(*a.at) == 0 || !(*a.at)[len(*a.at)-1].Equal(q.At) {
			*a.at = append(*a.at, q.At)
		}
	}
	return a.words.BatchCheck(ctx, queries)
}

func TestTokensComeBack(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{
		time.Date(2026, 11, 30, 17, 0, 0, 123456000, time.UTC),
		time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
	} {
		c := listing.Cursor{Position: store.Position{CapturedAt: at, ID: uuid.New()}}
		got, err := listing.ParseToken(c.Token())
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
}

func TestForeignTokensAreRefused(t *testing.T) {
	t.Parallel()
	good, err := base64.RawURLEncoding.DecodeString(listing.Cursor{Position: store.Position{CapturedAt: now, ID: idOf(1)}}.Token())
	require.NoError(t, err)
	change := func(i int, b byte) string {
		bad := append([]byte(nil), good...)
		bad[i] = b
		return base64.RawURLEncoding.EncodeToString(bad)
	}
	for name, token := range map[string]string{
		"empty":           "",
		"not base64":      "!!!",
		"padded":          base64.URLEncoding.EncodeToString(good),
		"another version": change(0, 2),
		"another flag":    change(1, 3),
		"cut":             base64.RawURLEncoding.EncodeToString(good[:len(good)-1]),
		"too long":        base64.RawURLEncoding.EncodeToString(append(good, 0)),
		"year 100000":     change(2, 0x7f),
		"before year 1":   change(2, 0x80),
	} {
		_, err := listing.ParseToken(token)
		require.ErrorIs(t, err, listing.ErrToken, name)
	}
}

package identity

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

const (
	// refreshEvery is how long a key that the issuer took back is still taken.
	refreshEvery = 5 * time.Minute
	// fetchTimeout bounds one reading of the issuer's documents.
	fetchTimeout = 5 * time.Second
	// Unknown key ids cost the issuer at most refreshBurst readings at once and
	// one more every refreshPause, whatever callers send.
	refreshBurst = 5
	refreshPause = 10 * time.Second
)

var (
	errUnknownKey   = errors.New("the token names a key that the issuer does not have")
	errNoKeys       = errors.New("the issuer's keys could not be read yet")
	errKeyAlgorithm = errors.New("the token's algorithm is not that of the key")
)

// keySet holds an issuer's public keys. The last good set stays in use for as
// long as the issuer cannot be read: an outage there is not one here.
type keySet struct {
	issuer string
	client *http.Client
	log    *zap.Logger
	now    func() time.Time

	keys atomic.Pointer[[]publicKey] // nil before the first good reading
	// reading holds one token: whoever takes it reads the issuer, the others
	// wait and look again.
	reading chan struct{}
	limit   *rate.Limiter
}

func newKeySet(issuer string, log *zap.Logger, now func() time.Time) *keySet {
	return &keySet{
		issuer: issuer,
		client: &http.Client{
			Timeout: fetchTimeout,
			// A redirect would let another host say who our callers are.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		log:     log,
		now:     now,
		reading: make(chan struct{}, 1),
		limit:   rate.NewLimiter(rate.Every(refreshPause), refreshBurst),
	}
}

// lookup returns the key with that id for that algorithm. An unknown id causes
// one fresh reading, and then decides.
func (s *keySet) lookup(ctx context.Context, kid, alg string) (any, error) {
	key, err := s.find(kid, alg)
	if !errors.Is(err, errUnknownKey) && !errors.Is(err, errNoKeys) {
		return key, err
	}
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return nil, err
	}
	if key, err = s.find(kid, alg); err == nil || !s.limit.AllowN(s.now(), 1) {
		return key, err
	}
	// The reading serves everybody: it must not end with this caller.
	s.refresh(context.WithoutCancel(ctx))
	return s.find(kid, alg)
}

// find looks among the keys at hand. A token without a key id means the only
// key that fits, if there is only one.
func (s *keySet) find(kid, alg string) (any, error) {
	keys := s.keys.Load()
	if keys == nil {
		return nil, errNoKeys
	}
	var found *publicKey
	err := errUnknownKey
	for i := range *keys {
		key := &(*keys)[i]
		if kid != "" && key.id != kid {
			continue
		}
		if !key.fits(alg) {
			err = errKeyAlgorithm
			continue
		}
		if found != nil {
			return nil, errUnknownKey
		}
		found = key
	}
	if found == nil {
		return nil, err
	}
	return found.key, nil
}

// refresh reads the issuer's keys; on any failure the ones at hand stay.
func (s *keySet) refresh(ctx context.Context) {
	keys, err := s.read(ctx)
	if err != nil {
		s.log.Warn("reading the issuer's keys failed; the ones at hand stay in use", zap.String("issuer", s.issuer), zap.Error(err))
		return
	}
	if old := s.keys.Swap(&keys); old == nil || !sameIDs(*old, keys) {
		s.log.Info("took the issuer's keys", zap.String("issuer", s.issuer), zap.Strings("key_ids", ids(keys)))
	}
}

// run refreshes until ctx ends, with jitter so that replicas do not align; soon
// again while there is no key at all.
func (s *keySet) run(ctx context.Context) {
	for {
		select {
		case s.reading <- struct{}{}:
			s.refresh(ctx)
			<-s.reading
		case <-ctx.Done():
			return
		}
		wait := time.Second
		if s.keys.Load() != nil {
			wait = refreshEvery - rand.N(refreshEvery/10)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// check says whether there is any key to verify with.
func (s *keySet) check(context.Context) error {
	if s.keys.Load() == nil {
		return fmt.Errorf("%w: is %s reachable from here?", errNoKeys, s.issuer)
	}
	return nil
}

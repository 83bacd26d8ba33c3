package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/telemetry"
)

// ErrUnauthenticated is wrapped by every refusal of Verify.
var ErrUnauthenticated = errors.New("unauthenticated")

// Verifier tells who a caller is. It is safe for concurrent use.
type Verifier struct {
	settings Settings
	tokens   *tokenVerifier // nil unless in mode jwt
	log      *zap.Logger
}

// New returns a verifier in the mode that the settings choose, and says so in
// the log. listeners are the addresses, host:port, on which requests of end
// users arrive: the dev header is refused on any that is not loopback, unless
// forced. Run must be running for keys to be kept fresh.
func New(settings Settings, listeners []string, log *zap.Logger, now func() time.Time) (*Verifier, error) {
	if err := settings.checkListeners(listeners); err != nil {
		return nil, err
	}
	v := &Verifier{settings: settings, log: log}
	mode := zap.String("mode", string(settings.Mode()))
	switch settings.Mode() {
	case ModeJWT:
		v.tokens = newTokenVerifier(settings, log, now)
		log.Info("identity by token", mode, zap.String("issuer", settings.IssuerURL), zap.String("audience", settings.Audience), zap.Strings("algorithms", settings.Algorithms))
		if settings.DevHeaders {
			log.Warn("DEV_HEADERS has no effect: an issuer is configured", mode)
		}
	case ModeDevHeader:
		log.Warn("DEVELOPMENT ONLY: whoever connects is who the header X-Muniment-Subject says", mode, zap.Bool("forced", settings.DevHeadersForce))
	case ModeDeny:
		log.Warn("every request is unauthenticated: neither ISSUER_URL nor DEV_HEADERS is set", mode)
	}
	return v, nil
}

// Run keeps the issuer's keys fresh until ctx ends. In other modes it waits.
func (v *Verifier) Run(ctx context.Context) error {
	if v.tokens != nil {
		v.tokens.keys.run(ctx)
		return nil
	}
	<-ctx.Done()
	return nil
}

// Check is the verifier's part of the service's health: in mode jwt a service
// is not ready before it has ever seen the issuer's keys.
func (v *Verifier) Check(ctx context.Context) error {
	if v.tokens == nil {
		return nil
	}
	return v.tokens.keys.check(ctx)
}

// Verify returns who shows these credentials. Any error means: no identity.
func (v *Verifier) Verify(ctx context.Context, c Credentials) (Identity, error) {
	var subject string
	var organizations []string
	var err error
	switch v.settings.Mode() {
	case ModeJWT:
		subject, organizations, err = v.tokens.verify(ctx, c.Authorization)
	case ModeDevHeader:
		subject, organizations = c.DevSubject, splitList(c.DevOrganizations)
	case ModeDeny:
		err = errors.New("identity mode is deny")
	}
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	}
	if err := CheckSubject(subject); err != nil {
		return Identity{}, fmt.Errorf("%w: the subject %w", ErrUnauthenticated, err)
	}
	return Identity{
		Subject:       subject,
		Organizations: v.usable(ctx, organizations),
		Service:       slices.Contains(v.settings.ServiceSubjects, subject),
	}, nil
}

// usable drops what cannot be an organization's name, so that one bad name does
// not spoil the checks on the others, and repeats.
func (v *Verifier) usable(ctx context.Context, organizations []string) []string {
	kept := make([]string, 0, len(organizations))
	for i, name := range organizations {
		if err := CheckOrganization(name); err != nil {
			telemetry.Log(ctx, v.log).Warn("dropping an organization that cannot be a name", zap.Int("position", i+1), zap.NamedError("rule", err))
			continue
		}
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}

// splitList reads a comma-separated list; space around a comma is not a name's.
func splitList(s string) []string {
	var names []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.Trim(part, " \t"); part != "" {
			names = append(names, part)
		}
	}
	return names
}

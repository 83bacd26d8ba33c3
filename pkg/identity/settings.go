package identity

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/muniment/muniment/pkg/config"
)

// maxLeeway bounds what may be forgiven to clocks.
const maxLeeway = 60 * time.Second

// Settings chooses one of three modes. With an issuer: jwt, whatever else is
// set. Without one and with DevHeaders: dev header. Otherwise: deny, where every
// request is unauthenticated.
type Settings struct {
	// IssuerURL is the OIDC issuer, spelled exactly as its tokens' iss; its keys
	// are found by discovery.
	IssuerURL string `env:"ISSUER_URL"`
	// Audience must stand in every token's aud.
	Audience string `env:"AUDIENCE" envDefault:"muniment"`
	// Algorithms are the signature algorithms taken, asymmetric ones only; a
	// token's own wish counts for nothing.
	Algorithms []string `env:"TOKEN_ALGORITHMS" envDefault:"RS256,ES256,EdDSA"`
	// Leeway is forgiven on all of a token's times, at most 60s.
	Leeway time.Duration `env:"TOKEN_LEEWAY" envDefault:"30s"`
	// OrganizationsClaim names the claim that lists the organizations: a list,
	// or a text with commas.
	OrganizationsClaim string `env:"ORGANIZATIONS_CLAIM" envDefault:"organizations"`
	// ServiceSubjects are subjects that act for nobody in person.
	ServiceSubjects []string `env:"SERVICE_SUBJECTS"`

	// DevHeaders believes the headers X-Muniment-Subject and
	// X-Muniment-Organizations: for development on one machine.
	DevHeaders bool `env:"DEV_HEADERS"`
	// DevHeadersForce allows DevHeaders on a listener that others can reach.
	DevHeadersForce bool `env:"DEV_HEADERS_FORCE"`
}

// Mode is how callers are told apart.
type Mode string

// The three modes.
const (
	ModeJWT       Mode = "jwt"
	ModeDevHeader Mode = "dev header"
	ModeDeny      Mode = "deny"
)

// Mode returns the mode that the settings choose.
func (s Settings) Mode() Mode {
	switch {
	case s.IssuerURL != "":
		return ModeJWT
	case s.DevHeaders:
		return ModeDevHeader
	}
	return ModeDeny
}

// Validate checks the settings against each other.
func (s Settings) Validate(prefix string) error {
	for _, subject := range s.ServiceSubjects {
		if err := CheckSubject(subject); err != nil {
			return fmt.Errorf("%sSERVICE_SUBJECTS: a subject %w", prefix, err)
		}
	}
	if s.DevHeadersForce && !s.DevHeaders {
		return fmt.Errorf("%sDEV_HEADERS_FORCE is set without %sDEV_HEADERS", prefix, prefix)
	}
	if s.Mode() != ModeJWT {
		return nil
	}
	if err := config.HTTPURL(prefix+"ISSUER_URL", s.IssuerURL); err != nil {
		return err
	}
	if s.Leeway < 0 || s.Leeway > maxLeeway {
		return fmt.Errorf("%sTOKEN_LEEWAY (%s) must be between 0s and %s", prefix, s.Leeway, maxLeeway)
	}
	if len(s.Algorithms) == 0 {
		return fmt.Errorf("%sTOKEN_ALGORITHMS must name at least one algorithm", prefix)
	}
	for _, alg := range s.Algorithms {
		if !asymmetric(alg) {
			return fmt.Errorf("%sTOKEN_ALGORITHMS: %q is not an asymmetric signature algorithm", prefix, alg)
		}
	}
	return nil
}

func asymmetric(alg string) bool {
	switch jwt.GetSigningMethod(alg).(type) {
	case *jwt.SigningMethodRSA, *jwt.SigningMethodRSAPSS, *jwt.SigningMethodECDSA, *jwt.SigningMethodEd25519:
		return true
	}
	return false
}

// checkListeners refuses the dev header where somebody else could send it.
func (s Settings) checkListeners(addresses []string) error {
	if s.Mode() != ModeDevHeader || s.DevHeadersForce {
		return nil
	}
	if i := slices.IndexFunc(addresses, func(a string) bool { return !loopback(a) }); i >= 0 {
		return fmt.Errorf("DEV_HEADERS believes whoever connects and %s is not a loopback address: listen on 127.0.0.1, configure ISSUER_URL, or set DEV_HEADERS_FORCE", addresses[i])
	}
	return nil
}

func loopback(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

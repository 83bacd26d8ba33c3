package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"
)

// maxTokenBytes bounds the work that an unauthenticated caller can ask for.
const maxTokenBytes = 16 << 10

// tokenVerifier checks JWTs of one issuer.
type tokenVerifier struct {
	parser *jwt.Parser
	keys   *keySet
	claim  string
}

func newTokenVerifier(settings Settings, log *zap.Logger, now func() time.Time) *tokenVerifier {
	return &tokenVerifier{
		parser: jwt.NewParser(
			jwt.WithValidMethods(settings.Algorithms),
			jwt.WithIssuer(settings.IssuerURL),
			jwt.WithAudience(settings.Audience),
			jwt.WithExpirationRequired(),
			jwt.WithIssuedAt(),
			jwt.WithLeeway(settings.Leeway),
			jwt.WithTimeFunc(now),
			jwt.WithStrictDecoding(),
		),
		keys:  newKeySet(settings.IssuerURL, log, now),
		claim: settings.OrganizationsClaim,
	}
}

// verify returns the token's subject and organizations, both still unchecked as
// names.
func (t *tokenVerifier) verify(ctx context.Context, authorization string) (subject string, organizations []string, err error) {
	scheme, raw, _ := strings.Cut(authorization, " ")
	raw = strings.TrimLeft(raw, " ")
	switch {
	case authorization == "":
		return "", nil, errors.New("no Authorization header, or more than one")
	case !strings.EqualFold(scheme, "Bearer") || raw == "":
		return "", nil, errors.New("the Authorization header is not 'Bearer <token>'")
	case len(raw) > maxTokenBytes:
		return "", nil, fmt.Errorf("the token is longer than %d bytes", maxTokenBytes)
	}
	claims := jwt.MapClaims{}
	if _, err := t.parser.ParseWithClaims(raw, claims, func(token *jwt.Token) (any, error) {
		// RFC 7515: what a token calls critical and we do not know, refuses it.
		if _, critical := token.Header["crit"]; critical {
			return nil, errCritical
		}
		kid, _ := token.Header["kid"].(string)
		return t.keys.lookup(ctx, kid, token.Method.Alg())
	}); err != nil {
		return "", nil, reason(err)
	}
	if subject, err = claims.GetSubject(); err != nil {
		return "", nil, errors.New("the token's sub is not a text")
	}
	organizations, err = organizationsIn(claims[t.claim])
	if err != nil {
		t.keys.log.Warn("no organizations taken from a token", zap.String("claim", t.claim), zap.Error(err))
	}
	return subject, organizations, nil
}

// organizationsIn reads a list of texts, or one text with commas.
func organizationsIn(claim any) ([]string, error) {
	switch claim := claim.(type) {
	case nil:
		return nil, nil
	case string:
		return splitList(claim), nil
	case []any:
		names := make([]string, 0, len(claim))
		for _, item := range claim {
			// What is not a text becomes the empty name, which is dropped and
			// logged with the other bad ones.
			name, _ := item.(string)
			names = append(names, name)
		}
		return names, nil
	}
	return nil, errors.New("the claim is neither a list nor a text")
}

var errCritical = errors.New("the token demands an extension (crit)")

// reason says why a token was refused in words of ours: the library's may quote
// the token.
func reason(err error) error {
	for _, known := range []error{
		errCritical, errUnknownKey, errNoKeys, errKeyAlgorithm,
		jwt.ErrTokenMalformed, jwt.ErrTokenSignatureInvalid, jwt.ErrTokenExpired, jwt.ErrTokenNotValidYet,
		jwt.ErrTokenUsedBeforeIssued, jwt.ErrTokenInvalidAudience, jwt.ErrTokenInvalidIssuer,
		jwt.ErrTokenRequiredClaimMissing, jwt.ErrInvalidType,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errors.New("the token cannot be verified")
}

package identity_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/muniment/muniment/pkg/identity"
)

var testNow = time.Date(2026, 11, 30, 17, 0, 0, 0, time.UTC)

func settings(issuerURL string) identity.Settings {
	return identity.Settings{
		IssuerURL: issuerURL, Audience: "muniment", Algorithms: []string{"RS256", "ES256", "EdDSA"},
		Leeway: 30 * time.Second, OrganizationsClaim: "organizations", ServiceSubjects: []string{"windmill"},
	}
}

func newVerifier(t *testing.T, s identity.Settings, now func() time.Time) (*identity.Verifier, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	require.NoError(t, s.Validate("MUNIMENT_TEST_"))
	v, err := identity.New(s, []string{"127.0.0.1:0"}, zap.New(core), now)
	require.NoError(t, err)
	return v, logs
}

func fixed() time.Time { return testNow }

func bearer(header string) identity.Credentials { return identity.Credentials{Authorization: header} }

func TestT43TokensVary(t *testing.T) {
	t.Parallel()
	iss := newIssuer(t, testNow)
	ec, rsaPair := ecKey(t), rsaKey(t, 2048)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	iss.publish(jwkOf(t, "ec", &ec.PublicKey), jwkOf(t, "rsa", &rsaPair.PublicKey), jwkOf(t, "ed", ed.Public()))
	publicDER, err := x509.MarshalPKIXPublicKey(&rsaPair.PublicKey)
	require.NoError(t, err)
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
	es := func(change jwt.MapClaims) string {
		return iss.sign(jwt.SigningMethodES256, ec, "ec", iss.claims(change))
	}
	at := func(d time.Duration) int64 { return testNow.Add(d).Unix() }

	for name, tc := range map[string]struct {
		authorization string
		accepted      bool
	}{
		"ES256":                      {es(nil), true},
		"RS256":                      {iss.sign(jwt.SigningMethodRS256, rsaPair, "rsa", iss.claims(nil)), true},
		"EdDSA":                      {iss.sign(jwt.SigningMethodEdDSA, ed, "ed", iss.claims(nil)), true},
		"no kid, one key fits":       {iss.sign(jwt.SigningMethodES256, ec, "", iss.claims(nil)), true},
		"scheme in lower case":       {strings.Replace(es(nil), "Bearer", "bearer", 1), true},
		"audience list":              {es(jwt.MapClaims{"aud": []string{"other", "muniment"}}), true},
		"audience another":           {es(jwt.MapClaims{"aud": "other"}), false},
		"audience empty list":        {es(jwt.MapClaims{"aud": []string{}}), false},
		"audience empty text":        {es(jwt.MapClaims{"aud": ""}), false},
		"audience absent":            {es(jwt.MapClaims{"aud": nil}), false},
		"audience list with number":  {es(jwt.MapClaims{"aud": []any{"muniment", 1}}), false},
		"issuer another":             {es(jwt.MapClaims{"iss": "https://evil.example"}), false},
		"issuer absent":              {es(jwt.MapClaims{"iss": nil}), false},
		"nbf 20s ahead":              {es(jwt.MapClaims{"nbf": at(20 * time.Second)}), true},
		"nbf 31s ahead":              {es(jwt.MapClaims{"nbf": at(31 * time.Second)}), false},
		"iat 20s ahead":              {es(jwt.MapClaims{"iat": at(20 * time.Second)}), true},
		"iat 31s ahead":              {es(jwt.MapClaims{"iat": at(31 * time.Second)}), false},
		"expired 29s ago":            {es(jwt.MapClaims{"exp": at(-29 * time.Second)}), true},
		"expired 30s ago":            {es(jwt.MapClaims{"exp": at(-30 * time.Second)}), false},
		"exp absent":                 {es(jwt.MapClaims{"exp": nil}), false},
		"exp is a text":              {es(jwt.MapClaims{"exp": "tomorrow"}), false},
		"alg none":                   {iss.sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "ec", iss.claims(nil)), false},
		"HS256 with the public key":  {iss.sign(jwt.SigningMethodHS256, publicPEM, "rsa", iss.claims(nil)), false},
		"algorithm not configured":   {iss.sign(jwt.SigningMethodRS512, rsaPair, "rsa", iss.claims(nil)), false},
		"algorithm of another key":   {iss.sign(jwt.SigningMethodRS256, rsaPair, "ec", iss.claims(nil)), false},
		"signed by another key":      {iss.sign(jwt.SigningMethodES256, ecKey(t), "ec", iss.claims(nil)), false},
		"critical extension":         {iss.sign(jwt.SigningMethodES256, ec, "ec", iss.claims(nil), "crit"), false},
		"signature cut":              {es(nil)[:len(es(nil))-4], false},
		"no token":                   {"", false},
		"basic":                      {"Basic YWxpY2U6", false},
		"scheme alone":               {"Bearer ", false},
		"not a token":                {"Bearer alice", false},
		"longer than any good token": {"Bearer " + strings.Repeat("a", 20<<10), false},
		"sub absent":                 {es(jwt.MapClaims{"sub": nil}), false},
		"sub a number":               {es(jwt.MapClaims{"sub": 7}), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, _ := newVerifier(t, settings(iss.server.URL), fixed)
			id, err := v.Verify(t.Context(), bearer(tc.authorization))
			if !tc.accepted {
				require.ErrorIs(t, err, identity.ErrUnauthenticated)
				require.Zero(t, id)
				return
			}
			require.NoError(t, err)
			require.Equal(t, identity.Identity{Subject: "alice", Organizations: []string{"acme"}}, id)
		})
	}
}

func TestT43KeysChange(t *testing.T) {
	t.Parallel()
	iss := newIssuer(t, testNow)
	first, second := ecKey(t), ecKey(t)
	iss.publish(jwkOf(t, "1", &first.PublicKey))
	v, _ := newVerifier(t, settings(iss.server.URL), fixed)
	_, err := v.Verify(t.Context(), bearer(iss.sign(jwt.SigningMethodES256, first, "1", iss.claims(nil))))
	require.NoError(t, err)

	iss.publish(jwkOf(t, "2", &second.PublicKey))
	_, err = v.Verify(t.Context(), bearer(iss.sign(jwt.SigningMethodES256, second, "2", iss.claims(nil))))
	require.NoError(t, err, "an unknown key id causes one refresh")
	_, err = v.Verify(t.Context(), bearer(iss.sign(jwt.SigningMethodES256, first, "1", iss.claims(nil))))
	require.Error(t, err, "a key that the issuer took back is refused")
}

func TestKeysOutliveAnOutage(t *testing.T) {
	t.Parallel()
	iss := newIssuer(t, testNow)
	key := ecKey(t)
	iss.publish(jwkOf(t, "1", &key.PublicKey))
	v, _ := newVerifier(t, settings(iss.server.URL), fixed)
	good := bearer(iss.sign(jwt.SigningMethodES256, key, "1", iss.claims(nil)))
	_, err := v.Verify(t.Context(), good)
	require.NoError(t, err)

	iss.setDown(true)
	_, err = v.Verify(t.Context(), bearer(iss.sign(jwt.SigningMethodES256, key, "unknown", iss.claims(nil))))
	require.Error(t, err)
	_, err = v.Verify(t.Context(), good)
	require.NoError(t, err, "the last good keys stay in use")
	require.NoError(t, v.Check(t.Context()))
}

func TestUnknownKeysDoNotFloodTheIssuer(t *testing.T) {
	t.Parallel()
	iss := newIssuer(t, testNow)
	key := ecKey(t)
	iss.publish(jwkOf(t, "1", &key.PublicKey))
	v, _ := newVerifier(t, settings(iss.server.URL), fixed)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			_, err := v.Verify(context.Background(), bearer(iss.sign(jwt.SigningMethodES256, key, "unknown", iss.claims(nil))))
			if err == nil {
				t.Error("a token with an unknown key was accepted")
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, iss.readCount(), 5)
	_, err := v.Verify(t.Context(), bearer(iss.sign(jwt.SigningMethodES256, key, "1", iss.claims(nil))))
	require.NoError(t, err)
}

func TestIssuerUnreachableAtStart(t *testing.T) {
	t.Parallel()
	iss := newIssuer(t, testNow)
	key := ecKey(t)
	iss.publish(jwkOf(t, "1", &key.PublicKey))
	iss.setDown(true)
	v, _ := newVerifier(t, settings(iss.server.URL), fixed)
	require.Error(t, v.Check(t.Context()), "not ready before the first keys")
	_, err := v.Verify(t.Context(), bearer(iss.sign(jwt.SigningMethodES256, key, "1", iss.claims(nil))))
	require.ErrorIs(t, err, identity.ErrUnauthenticated)

	iss.setDown(false)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx) }()
	require.Eventually(t, func() bool { return v.Check(t.Context()) == nil }, 10*time.Second, 5*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}

func TestUnusableKeys(t *testing.T) {
	t.Parallel()
	small, encryption := rsaKey(t, 1024), ecKey(t)
	forEncryption := jwkOf(t, "enc", &encryption.PublicKey)
	forEncryption["use"] = "enc"
	otherAlg := ecKey(t)
	bound := jwkOf(t, "bound", &otherAlg.PublicKey)
	bound["alg"] = "ES384"
	offCurve := jwkOf(t, "off", &otherAlg.PublicKey)
	offCurve["x"] = offCurve["y"]
	for name, tc := range map[string]struct {
		jwk  map[string]any
		sign func(iss *issuer) string
	}{
		"RSA below 2048 bits":     {jwkOf(t, "small", &small.PublicKey), func(i *issuer) string { return i.sign(jwt.SigningMethodRS256, small, "small", i.claims(nil)) }},
		"for encryption":          {forEncryption, func(i *issuer) string { return i.sign(jwt.SigningMethodES256, encryption, "enc", i.claims(nil)) }},
		"bound to another alg":    {bound, func(i *issuer) string { return i.sign(jwt.SigningMethodES256, otherAlg, "bound", i.claims(nil)) }},
		"a point off the curve":   {offCurve, func(i *issuer) string { return i.sign(jwt.SigningMethodES256, otherAlg, "off", i.claims(nil)) }},
		"a kind that is not ours": {map[string]any{"kty": "oct", "kid": "oct", "k": "c2VjcmV0"}, func(i *issuer) string { return i.sign(jwt.SigningMethodHS256, []byte("secret"), "oct", i.claims(nil)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			iss := newIssuer(t, testNow)
			good := ecKey(t)
			iss.publish(tc.jwk, jwkOf(t, "good", &good.PublicKey))
			v, _ := newVerifier(t, settings(iss.server.URL), fixed)
			_, err := v.Verify(t.Context(), bearer(tc.sign(iss)))
			require.Error(t, err)
			_, err = v.Verify(t.Context(), bearer(iss.sign(jwt.SigningMethodES256, good, "good", iss.claims(nil))))
			require.NoError(t, err, "a key of no use does not spoil the others")
		})
	}
}

func TestOrganizationsClaim(t *testing.T) {
	t.Parallel()
	iss := newIssuer(t, testNow)
	key := ecKey(t)
	iss.publish(jwkOf(t, "1", &key.PublicKey))
	s := settings(iss.server.URL)
	s.OrganizationsClaim = "https://muniment.example/groups"
	for name, tc := range map[string]struct {
		claim any
		want  []string
	}{
		"list":                      {[]string{"acme", "beta"}, []string{"acme", "beta"}},
		"text":                      {"acme, beta", []string{"acme", "beta"}},
		"absent":                    {nil, []string{}},
		"repeated":                  {[]string{"acme", "acme"}, []string{"acme"}},
		"of another type":           {map[string]any{"acme": true}, []string{}},
		"with a number in the list": {[]any{"acme", 7}, []string{"acme"}},
		"T51 one bad among good":    {[]string{"acme", "be ta", "*", "x#member"}, []string{"acme"}},
		"T51 the same as a text":    {"acme,be ta,*,x#member", []string{"acme"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, logs := newVerifier(t, s, fixed)
			id, err := v.Verify(t.Context(), bearer(iss.sign(jwt.SigningMethodES256, key, "1", iss.claims(jwt.MapClaims{s.OrganizationsClaim: tc.claim}))))
			require.NoError(t, err)
			require.Equal(t, tc.want, id.Organizations)
			if strings.HasPrefix(name, "T51") {
				require.Equal(t, 3, logs.FilterMessageSnippet("dropping an organization").Len())
			}
		})
	}
}

func TestServiceSubject(t *testing.T) {
	t.Parallel()
	iss := newIssuer(t, testNow)
	key := ecKey(t)
	iss.publish(jwkOf(t, "1", &key.PublicKey))
	v, _ := newVerifier(t, settings(iss.server.URL), fixed)
	id, err := v.Verify(t.Context(), bearer(iss.sign(jwt.SigningMethodES256, key, "1", iss.claims(jwt.MapClaims{"sub": "windmill"}))))
	require.NoError(t, err)
	require.True(t, id.Service)
}

// The reason goes to the log: it must not carry what the token says.
func TestReasonHoldsNoTokenContents(t *testing.T) {
	t.Parallel()
	iss := newIssuer(t, testNow)
	key := ecKey(t)
	iss.publish(jwkOf(t, "1", &key.PublicKey))
	v, logs := newVerifier(t, settings(iss.server.URL), fixed)
	const secret = "canary"
	tokens := []string{
		"Bearer " + secret, secret, "Bearer " + secret + "." + secret + "." + secret,
		iss.sign(jwt.SigningMethodES256, key, secret, iss.claims(nil)),
		iss.sign(jwt.SigningMethodES256, key, "1", iss.claims(jwt.MapClaims{"iss": secret, "aud": secret, "exp": secret})),
		iss.sign(jwt.SigningMethodES256, key, "1", iss.claims(jwt.MapClaims{"sub": secret + ":x"})),
	}
	token := jwt.NewWithClaims(jwt.SigningMethodES256, iss.claims(nil))
	token.Header["alg"] = secret
	head, err := token.SigningString()
	require.NoError(t, err)
	tokens = append(tokens, "Bearer "+head+".AAAA")
	for _, header := range tokens {
		_, err := v.Verify(t.Context(), bearer(header))
		require.Error(t, err)
		require.NotContains(t, err.Error(), secret)
	}
	_, err = v.Verify(t.Context(), bearer(iss.sign(jwt.SigningMethodES256, key, "1", iss.claims(jwt.MapClaims{"organizations": secret + "#x"}))))
	require.NoError(t, err)
	for _, entry := range logs.All() {
		for _, value := range entry.ContextMap() {
			require.NotContains(t, fmt.Sprint(value), secret)
		}
	}
}

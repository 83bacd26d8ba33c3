package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

const (
	maxDocumentBytes = 1 << 20
	minRSABits       = 2048
)

// publicKey is one of the issuer's keys, ready for use.
type publicKey struct {
	id  string
	alg string // what the issuer says it is for; may be empty
	key any
}

// fits says whether the key may verify that algorithm: kind, curve, and the
// issuer's own word.
func (k *publicKey) fits(alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		method, ok := jwt.GetSigningMethod(alg).(*jwt.SigningMethodECDSA)
		return ok && method.CurveBits == key.Params().BitSize
	case ed25519.PublicKey:
		return alg == jwt.SigningMethodEdDSA.Alg()
	}
	return false
}

func ids(keys []publicKey) []string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.id
	}
	slices.Sort(list)
	return list
}

func sameIDs(a, b []publicKey) bool { return slices.Equal(ids(a), ids(b)) }

// read fetches the issuer's discovery document and the keys that it points to.
func (s *keySet) read(ctx context.Context) ([]publicKey, error) {
	var discovery struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := s.get(ctx, strings.TrimSuffix(s.issuer, "/")+"/.well-known/openid-configuration", &discovery); err != nil {
		return nil, fmt.Errorf("reading the discovery document: %w", err)
	}
	if discovery.Issuer != s.issuer {
		return nil, errors.New("the discovery document is another issuer's; ISSUER_URL must be spelled as the issuer spells itself")
	}
	if err := sameProtection(s.issuer, discovery.JWKSURI); err != nil {
		return nil, err
	}
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := s.get(ctx, discovery.JWKSURI, &set); err != nil {
		return nil, fmt.Errorf("reading the key set: %w", err)
	}
	var keys []publicKey
	for _, k := range set.Keys {
		if key, ok := k.public(); ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set holds no usable signature key")
	}
	return keys, nil
}

// sameProtection refuses keys over plain HTTP from an issuer over HTTPS.
func sameProtection(issuer, jwksURI string) error {
	from, err := url.Parse(issuer)
	if err != nil {
		return errors.New("the issuer is not a URL")
	}
	to, err := url.Parse(jwksURI)
	if err != nil || to.Host == "" || (to.Scheme != "https" && to.Scheme != from.Scheme) {
		return errors.New("the discovery document's jwks_uri is not a URL as well protected as the issuer's")
	}
	return nil
}

func (s *keySet) get(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return fmt.Errorf("building the request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", address, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDocumentBytes)).Decode(into); err != nil {
		return fmt.Errorf("decoding %s: %w", address, err)
	}
	return nil
}

// jwk is a JSON Web Key (RFC 7517), public parts only.
type jwk struct {
	Kty, Use, Kid, Alg string
	KeyOps             []string `json:"key_ops"`
	N, E               string   // RSA
	Crv, X, Y          string   // elliptic curves
}

// public returns the key, or false for one that is of no use here: another
// purpose, an unknown kind, malformed, or too weak.
func (k jwk) public() (publicKey, bool) {
	if k.Use != "" && k.Use != "sig" || k.KeyOps != nil && !slices.Contains(k.KeyOps, "verify") {
		return publicKey{}, false
	}
	var key any
	switch k.Kty {
	case "RSA":
		key = k.rsa()
	case "EC":
		key = k.ecdsa()
	case "OKP":
		key = k.ed25519()
	}
	return publicKey{id: k.Kid, alg: k.Alg, key: key}, key != nil
}

func (k jwk) rsa() any {
	n, err := base64.RawURLEncoding.DecodeString(k.N)
	if err != nil {
		return nil
	}
	e, err := base64.RawURLEncoding.DecodeString(k.E)
	if err != nil || len(e) == 0 || len(e) > 4 {
		return nil
	}
	key := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
	if key.N.BitLen() < minRSABits || key.E < 3 || key.E%2 == 0 {
		return nil
	}
	return key
}

func (k jwk) ecdsa() any {
	curve, ok := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[k.Crv]
	if !ok {
		return nil
	}
	size := (curve.Params().BitSize + 7) / 8
	x, errX := base64.RawURLEncoding.DecodeString(k.X)
	y, errY := base64.RawURLEncoding.DecodeString(k.Y)
	if errX != nil || errY != nil || len(x) != size || len(y) != size {
		return nil
	}
	// Uncompressed point; the parser checks that it is on the curve.
	key, err := ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, x, y))
	if err != nil {
		return nil
	}
	return key
}

func (k jwk) ed25519() any {
	x, err := base64.RawURLEncoding.DecodeString(k.X)
	if k.Crv != "Ed25519" || err != nil || len(x) != ed25519.PublicKeySize {
		return nil
	}
	return ed25519.PublicKey(x)
}

package identity_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// issuer is an OIDC issuer whose keys and health a test can change. It counts
// how often its key set was read.
type issuer struct {
	t      *testing.T
	server *httptest.Server
	now    time.Time

	mu    sync.Mutex
	keys  []map[string]any
	down  bool
	reads int
}

func newIssuer(t *testing.T, now time.Time) *issuer {
	t.Helper()
	i := &issuer{t: t, now: now}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.reply(w, map[string]any{"issuer": i.server.URL, "jwks_uri": i.server.URL + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		i.reads++
		keys := i.keys
		i.mu.Unlock()
		i.reply(w, map[string]any{"keys": keys})
	})
	i.server = httptest.NewServer(mux)
	t.Cleanup(i.server.Close)
	return i
}

func (i *issuer) reply(w http.ResponseWriter, body any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.down {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	_ = json.NewEncoder(w).Encode(body)
}

func (i *issuer) setDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

func (i *issuer) readCount() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.reads
}

// publish replaces the key set.
func (i *issuer) publish(keys ...map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// claims are those of a good token; change overrides some, nil removes.
func (i *issuer) claims(change jwt.MapClaims) jwt.MapClaims {
	c := jwt.MapClaims{
		"iss": i.server.URL, "aud": "muniment", "sub": "alice", "organizations": []string{"acme"},
		"iat": i.now.Unix(), "nbf": i.now.Unix(), "exp": i.now.Add(5 * time.Minute).Unix(),
	}
	for k, v := range change {
		if v == nil {
			delete(c, k)
			continue
		}
		c[k] = v
	}
	return c
}

// sign returns the Authorization header of a token.
func (i *issuer) sign(method jwt.SigningMethod, key any, kid string, claims jwt.MapClaims, header ...string) string {
	i.t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if kid != "" {
		token.Header["kid"] = kid
	}
	for _, h := range header {
		token.Header[h] = []string{"x"}
	}
	raw, err := token.SignedString(key)
	require.NoError(i.t, err)
	return "Bearer " + raw
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jwkOf describes a public key.
func jwkOf(t *testing.T, kid string, key crypto.PublicKey) map[string]any {
	t.Helper()
	switch key := key.(type) {
	case *rsa.PublicKey:
		return map[string]any{"kty": "RSA", "kid": kid, "use": "sig", "n": b64(key.N.Bytes()), "e": b64([]byte{1, 0, 1})}
	case *ecdsa.PublicKey:
		point, err := key.Bytes()
		require.NoError(t, err)
		half := (len(point) - 1) / 2
		return map[string]any{"kty": "EC", "kid": kid, "crv": key.Params().Name, "x": b64(point[1 : 1+half]), "y": b64(point[1+half:])}
	case ed25519.PublicKey:
		return map[string]any{"kty": "OKP", "kid": kid, "crv": "Ed25519", "x": b64(key)}
	}
	t.Fatalf("no JWK for %T", key)
	return nil
}

func ecKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func rsaKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	require.NoError(t, err)
	return key
}

// Package devissuer is an OpenID Connect issuer for local stacks and tests: it
// signs a token for whoever asks. It exists so that services verify tokens
// there through exactly the code that meets the real issuer in production
// (discovery, JWKS, signatures), and it must never listen anywhere but on
// loopback; it refuses to.
package devissuer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Audience stands in every token's aud.
const Audience = "muniment"

// Issuer is a running issuer.
type Issuer struct {
	// URL is the issuer's identifier and address.
	URL string

	now    func() time.Time
	server *http.Server
	served sync.WaitGroup

	mu   sync.Mutex
	keys []signingKey // the newest last; it signs, all are published
}

type signingKey struct {
	id  string
	key *ecdsa.PrivateKey
}

// maxLifetime bounds a token's life, whatever is asked for.
const maxLifetime = time.Hour

// Start starts an issuer on a loopback address ("127.0.0.1:0" for a free port).
// It runs until Close; ctx is for the start alone.
func Start(ctx context.Context, address string, now func() time.Time) (*Issuer, error) {
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for the issuer: %w", err)
	}
	if tcp, ok := lis.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		_ = lis.Close()
		return nil, errors.New("the development issuer signs for everybody and listens on loopback only")
	}
	i := &Issuer{URL: "http://" + lis.Addr().String(), now: now}
	if err := i.Rotate(); err != nil {
		_ = lis.Close()
		return nil, err
	}
	i.server = &http.Server{Handler: i.handler(), ReadHeaderTimeout: 5 * time.Second}
	i.served.Go(func() { _ = i.server.Serve(lis) })
	return i, nil
}

// Close stops the issuer.
func (i *Issuer) Close() {
	_ = i.server.Close()
	i.served.Wait()
}

// Rotate begins to sign with a new key. The earlier ones stay published, as an
// issuer does while their tokens live.
func (i *Issuer) Rotate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making a signing key: %w", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, signingKey{id: rand.Text(), key: key})
	return nil
}

func (i *Issuer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /jwks.json", i.jwks)
	mux.HandleFunc("POST /token", i.token)
	return mux
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	reply(w, map[string]any{
		"issuer":                                i.URL,
		"jwks_uri":                              i.URL + "/jwks.json",
		"token_endpoint":                        i.URL + "/token",
		"authorization_endpoint":                i.URL + "/authorize",
		"response_types_supported":              []string{"code"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256"},
	})
}

func (i *Issuer) jwks(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	keys := make([]map[string]string, 0, len(i.keys))
	for _, k := range i.keys {
		point, err := k.key.PublicKey.Bytes()
		if err != nil {
			http.Error(w, "the signing key cannot be encoded", http.StatusInternalServerError)
			return
		}
		const size = 32
		keys = append(keys, map[string]string{
			"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": k.id,
			"x": encode(point[1 : 1+size]), "y": encode(point[1+size:]), // point[0] says "uncompressed"
		})
	}
	reply(w, map[string]any{"keys": keys})
}

// tokenRequest is the body of POST /token.
type tokenRequest struct {
	Subject       string   `json:"subject"`
	Organizations []string `json:"organizations"`
	// TTL is a Go duration; five minutes when absent.
	TTL string `json:"ttl"`
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	var req tokenRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&req); err != nil {
		http.Error(w, "the body must be a JSON object {subject, organizations, ttl}", http.StatusBadRequest)
		return
	}
	var options []Option
	if req.TTL != "" {
		ttl, err := time.ParseDuration(req.TTL)
		if err != nil || ttl <= 0 || ttl > maxLifetime {
			http.Error(w, fmt.Sprintf("ttl must be a duration of at most %s", maxLifetime), http.StatusBadRequest)
			return
		}
		options = append(options, WithTTL(ttl))
	}
	token, err := i.Sign(req.Subject, req.Organizations, options...)
	if err != nil {
		http.Error(w, "the token cannot be signed", http.StatusInternalServerError)
		return
	}
	reply(w, map[string]any{"access_token": token, "token_type": "Bearer"})
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// Option changes one token.
type Option func(header, claims map[string]any)

// WithTTL sets the token's life; five minutes without it.
func WithTTL(ttl time.Duration) Option {
	return func(_, claims map[string]any) {
		issued, _ := claims["iat"].(int64)
		claims["exp"] = issued + int64(ttl/time.Second)
	}
}

// WithClaim sets a claim to any value; nil removes it.
func WithClaim(name string, value any) Option {
	return func(_, claims map[string]any) {
		if value == nil {
			delete(claims, name)
			return
		}
		claims[name] = value
	}
}

// WithHeader sets a field of the token's header, for tokens that should be
// refused.
func WithHeader(name string, value any) Option {
	return func(header, _ map[string]any) { header[name] = value }
}

// Token signs a token for a subject and its organizations. It panics where the
// system has no randomness.
func (i *Issuer) Token(subject string, organizations ...string) string {
	token, err := i.Sign(subject, organizations)
	if err != nil {
		panic(err)
	}
	return token
}

// Sign signs a token whose claims the options may change.
func (i *Issuer) Sign(subject string, organizations []string, options ...Option) (string, error) {
	i.mu.Lock()
	signer := i.keys[len(i.keys)-1]
	i.mu.Unlock()
	if organizations == nil {
		organizations = []string{}
	}
	now := i.now().Unix()
	header := map[string]any{"alg": "ES256", "typ": "JWT", "kid": signer.id}
	claims := map[string]any{
		"iss": i.URL, "sub": subject, "aud": Audience, "organizations": organizations,
		"iat": now, "nbf": now, "exp": now + 300,
	}
	for _, option := range options {
		option(header, claims)
	}
	head, err := json.Marshal(header)
	if err != nil {
		return "", fmt.Errorf("encoding the token's header: %w", err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encoding the token's claims: %w", err)
	}
	signed := encode(head) + "." + encode(body)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, signer.key, sum[:])
	if err != nil {
		return "", fmt.Errorf("signing the token: %w", err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + encode(signature), nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

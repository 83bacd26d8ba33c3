package identity_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/identity"
)

func TestT25Names(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "a:b", "acme#member", "a@b", "*", "be ta", "a\tb", "a\x00b", "a\u00a0b", "a\u0085b", "a\x7fb", "\xff", strings.Repeat("a", 600)} {
		require.Error(t, identity.CheckSubject(bad), "%q", bad)
		require.Error(t, identity.CheckOrganization(bad), "%q", bad)
	}
	for _, bad := range []string{"a/b", `a\b`, ".", "..", "..."} {
		require.Error(t, identity.CheckOrganization(bad), "%q", bad)
	}
	for _, good := range []string{"alice", "auth0|5f7c", "a.b", "ålice", "a/b", "..", strings.Repeat("a", 507)} {
		require.NoError(t, identity.CheckSubject(good), "%q", good)
	}
	for _, good := range []string{"acme", "acme.example", "ünï", strings.Repeat("a", 243)} {
		require.NoError(t, identity.CheckOrganization(good), "%q", good)
	}
	require.Error(t, identity.CheckSubject(strings.Repeat("a", 508)), "user: and the subject must fit 512")
	require.Error(t, identity.CheckOrganization(strings.Repeat("a", 244)), "organization: and the name must fit 256")
}

func TestDenyIsTheDefault(t *testing.T) {
	t.Parallel()
	var s identity.Settings
	require.NoError(t, config.Load("MUNIMENT_TEST_", nil, &s, nil))
	require.NoError(t, s.Validate("MUNIMENT_TEST_"))
	require.Equal(t, identity.ModeDeny, s.Mode())
	v, logs := newVerifier(t, s, time.Now)
	require.Equal(t, 1, logs.FilterField(zap.String("mode", "deny")).Len(), "the mode is said at start")
	_, err := v.Verify(t.Context(), identity.Credentials{Authorization: "Bearer x", DevSubject: "alice", DevOrganizations: "acme"})
	require.ErrorIs(t, err, identity.ErrUnauthenticated)
}

func TestDevHeader(t *testing.T) {
	t.Parallel()
	v, logs := newVerifier(t, identity.Settings{DevHeaders: true, ServiceSubjects: []string{"windmill"}}, time.Now)
	require.Equal(t, 1, logs.FilterLevelExact(zap.WarnLevel).FilterField(zap.String("mode", "dev header")).Len(), "warned about loudly")

	id, err := v.Verify(t.Context(), identity.Credentials{DevSubject: "alice", DevOrganizations: "acme,be ta,*,x#member"})
	require.NoError(t, err)
	require.Equal(t, identity.Identity{Subject: "alice", Organizations: []string{"acme"}}, id)
	id, err = v.Verify(t.Context(), identity.Credentials{DevSubject: "windmill"})
	require.NoError(t, err)
	require.True(t, id.Service)
	for _, bad := range []string{"", "a:b", strings.Repeat("a", 600)} {
		_, err = v.Verify(t.Context(), identity.Credentials{DevSubject: bad, DevOrganizations: "acme"})
		require.ErrorIs(t, err, identity.ErrUnauthenticated)
	}
}

func TestJWTWinsOverDevHeader(t *testing.T) {
	t.Parallel()
	iss := newIssuer(t, testNow)
	s := settings(iss.server.URL)
	s.DevHeaders = true
	v, _ := newVerifier(t, s, fixed)
	_, err := v.Verify(t.Context(), identity.Credentials{DevSubject: "alice"})
	require.ErrorIs(t, err, identity.ErrUnauthenticated)
}

func TestDevHeaderOnlyOnLoopback(t *testing.T) {
	t.Parallel()
	for address, loopback := range map[string]bool{
		"127.0.0.1:8080": true, "[::1]:8080": true, "localhost:0": true, "127.9.9.9:1": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "10.0.0.1:8080": false, "example.org:80": false, "nonsense": false,
	} {
		_, err := identity.New(identity.Settings{DevHeaders: true}, []string{"127.0.0.1:1", address}, zap.NewNop(), time.Now)
		require.Equal(t, loopback, err == nil, "%s: %v", address, err)
		_, err = identity.New(identity.Settings{DevHeaders: true, DevHeadersForce: true}, []string{address}, zap.NewNop(), time.Now)
		require.NoError(t, err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*identity.Settings){
		"symmetric algorithm":   func(s *identity.Settings) { s.Algorithms = []string{"RS256", "HS256"} },
		"algorithm none":        func(s *identity.Settings) { s.Algorithms = []string{"none"} },
		"unknown algorithm":     func(s *identity.Settings) { s.Algorithms = []string{"RS1"} },
		"no algorithm":          func(s *identity.Settings) { s.Algorithms = nil },
		"leeway over 60s":       func(s *identity.Settings) { s.Leeway = 61 * time.Second },
		"negative leeway":       func(s *identity.Settings) { s.Leeway = -time.Second },
		"issuer is no URL":      func(s *identity.Settings) { s.IssuerURL = "issuer" },
		"bad service subject":   func(s *identity.Settings) { s.ServiceSubjects = []string{"a:b"} },
		"force without headers": func(s *identity.Settings) { s.DevHeadersForce = true },
	} {
		s := settings("https://issuer.example")
		require.NoError(t, s.Validate("MUNIMENT_TEST_"))
		change(&s)
		require.ErrorContains(t, s.Validate("MUNIMENT_TEST_"), "MUNIMENT_TEST_", name)
	}
}

func TestFromHeader(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	h.Add("Authorization", "Bearer a")
	h.Add("X-Muniment-Subject", "alice")
	h.Add("X-Muniment-Organizations", "acme")
	h.Add("X-Muniment-Organizations", "beta")
	require.Equal(t, identity.Credentials{Authorization: "Bearer a", DevSubject: "alice", DevOrganizations: "acme,beta"}, identity.FromHeader(h))
	h.Add("Authorization", "Bearer b")
	h.Add("X-Muniment-Subject", "bob")
	got := identity.FromHeader(h)
	require.Empty(t, got.Authorization, "of two, nobody can say which one was meant")
	require.Empty(t, got.DevSubject)
}

// Without the gateway's certificate the dev headers are not believed, whatever
// the metadata says.
func TestDevHeadersOnlyFromTheGateway(t *testing.T) {
	t.Parallel()
	out := identity.Credentials{Authorization: "Bearer a", DevSubject: "ålice", DevOrganizations: "acme"}.Outgoing(t.Context())
	md, _ := metadata.FromOutgoingContext(out)
	in := metadata.NewIncomingContext(t.Context(), md)
	require.Equal(t, identity.Credentials{Authorization: "Bearer a"}, identity.Incoming(in, "ledger"))
}

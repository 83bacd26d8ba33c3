package identity

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/rpcerr"
)

// The headers of the dev header mode.
const (
	DevSubjectHeader       = "X-Muniment-Subject"
	DevOrganizationsHeader = "X-Muniment-Organizations"
)

// The metadata keys between services. The dev headers travel as binary values:
// a header may hold what gRPC's text metadata may not.
const (
	authorizationKey    = "authorization"
	devSubjectKey       = "x-muniment-subject-bin"
	devOrganizationsKey = "x-muniment-organizations-bin"
)

// Credentials are what a caller shows, unverified.
type Credentials struct {
	Authorization    string
	DevSubject       string
	DevOrganizations string
}

// FromHeader takes the credentials out of HTTP headers. A header that stands
// there twice counts as absent: nobody can say which one was meant.
func FromHeader(h http.Header) Credentials {
	return Credentials{
		Authorization:    single(h.Values("Authorization")),
		DevSubject:       single(h.Values(DevSubjectHeader)),
		DevOrganizations: strings.Join(h.Values(DevOrganizationsHeader), ","),
	}
}

// Outgoing returns a context whose gRPC calls carry the credentials on.
func (c Credentials) Outgoing(ctx context.Context) context.Context {
	var pairs []string
	for key, value := range map[string]string{
		authorizationKey: c.Authorization, devSubjectKey: c.DevSubject, devOrganizationsKey: c.DevOrganizations,
	} {
		if value != "" && (key != authorizationKey || printable(value)) {
			pairs = append(pairs, key, value)
		}
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// printable says whether gRPC takes the value as text; no token has any other.
func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// Incoming returns the credentials of the call that is being served, so that
// the service can pass them on. The dev headers count only from the gateway.
func Incoming(ctx context.Context, gateway string) Credentials {
	md, _ := metadata.FromIncomingContext(ctx)
	c := Credentials{Authorization: single(md.Get(authorizationKey))}
	if slices.Contains(grpcx.Peers(ctx), gateway) {
		c.DevSubject = single(md.Get(devSubjectKey))
		c.DevOrganizations = single(md.Get(devOrganizationsKey))
	}
	return c
}

// Shown says whether the call that is being served shows a user's credentials,
// be they usable or not: two tokens are nobody's, but they are not silence.
func Shown(ctx context.Context, gateway string) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	if len(md.Get(authorizationKey)) > 0 {
		return true
	}
	return slices.Contains(grpcx.Peers(ctx), gateway) && len(md.Get(devSubjectKey))+len(md.Get(devOrganizationsKey)) > 0
}

func single(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// Authenticate returns the hook for grpcx.ServerSettings. Every method needs an
// end user's identity but the ones in public, by full method name: those that
// services call on their own behalf and those that anybody may call. gateway is
// the peer name from which the dev headers are taken.
func Authenticate(v *Verifier, public []string, gateway string) func(ctx context.Context, fullMethod string) (context.Context, error) {
	return func(ctx context.Context, fullMethod string) (context.Context, error) {
		if slices.Contains(public, fullMethod) {
			return ctx, nil
		}
		id, err := v.Verify(ctx, Incoming(ctx, gateway))
		if err != nil {
			return nil, rpcerr.Unauthenticated(err)
		}
		return WithIdentity(ctx, id), nil
	}
}

package server

import (
	"context"

	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/identity"
)

// Gateway is the peer that passes end users' credentials on, and the only one
// whose development headers count.
const Gateway = "ledger"

// Authenticate returns the hook that decides who a caller is: the end user
// whose token the call carries, verified here once more. A certificate alone
// opens nothing, unless its name is listed in services with a subject of its
// own; and a call that shows a user's credentials is that user's or nobody's.
func Authenticate(v *identity.Verifier, services map[string]string) func(ctx context.Context, fullMethod string) (context.Context, error) {
	endUser := identity.Authenticate(v, nil, Gateway)
	return func(ctx context.Context, fullMethod string) (context.Context, error) {
		if identity.Shown(ctx, Gateway) {
			return endUser(ctx, fullMethod)
		}
		for _, peer := range grpcx.Peers(ctx) {
			if subject, listed := services[peer]; listed {
				return identity.WithIdentity(ctx, identity.Identity{Subject: subject, Service: true}), nil
			}
		}
		return endUser(ctx, fullMethod)
	}
}

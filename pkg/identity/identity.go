// Package identity turns what a caller shows (a token, or in development a
// header) into a subject and the organizations he belongs to. It decides nothing
// else: what an identity may do is the authorization engine's answer.
//
// A caller only ever learns that he is not authenticated. The reason is the
// error's, for the log, and never holds a token's contents.
package identity

import "context"

// Identity is who calls, as his token says. Membership is never stored: it
// travels as contextual tuples on each check.
type Identity struct {
	Subject string
	// Organizations keep the token's order, without repeats and without names
	// that cannot be one.
	Organizations []string
	// Service says that the subject is configured as a service: what it starts
	// was asked for by nobody in person.
	Service bool
}

type contextKey struct{}

// WithIdentity puts the caller's identity into the context.
func WithIdentity(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// FromContext returns the caller's identity; false where there is none.
func FromContext(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(contextKey{}).(Identity)
	return id, ok
}

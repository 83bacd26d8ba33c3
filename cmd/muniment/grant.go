package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/identity"
)

const (
	grantUsage  = "grant submitter|admin USER ORG                         let USER submit for ORG, or administer it"
	revokeUsage = "revoke submitter|admin USER ORG                        take that back"
)

// runGrant writes a stored grant and says what holds now.
func runGrant(ctx context.Context, sh shell, args []string) error {
	return change(ctx, sh, args, "wrote", func(engine *fga.Client, t fga.Tuple) error {
		return engine.Write(ctx, []fga.Tuple{t}, nil)
	})
}

// runRevoke removes a stored grant and says what holds now.
func runRevoke(ctx context.Context, sh shell, args []string) error {
	return change(ctx, sh, args, "removed", func(engine *fga.Client, t fga.Tuple) error {
		return engine.Write(ctx, nil, []fga.Key{t.Key()})
	})
}

func change(ctx context.Context, sh shell, args []string, did string, apply func(*fga.Client, fga.Tuple) error) error {
	role, user, organization, err := grantArguments(args)
	if err != nil {
		return err
	}
	engine, err := sh.engine()
	if err != nil {
		return err
	}
	tuple := fga.Tuple{User: fga.User(user), Relation: role, Object: fga.Organization(organization)}
	before, err := stored(ctx, engine, tuple.Key())
	if err != nil {
		return err
	}
	if err := apply(engine, tuple); err != nil {
		return err
	}
	after, err := stored(ctx, engine, tuple.Key())
	if err != nil {
		return err
	}
	if before == after {
		did = "nothing to do for"
	}
	if _, err := fmt.Fprintf(sh.out, "%s: %s %s %s\n", did, tuple.User, tuple.Relation, tuple.Object); err != nil {
		return err
	}
	return sayMaySubmit(ctx, sh, engine, user, organization)
}

// sayMaySubmit asks the engine, and does not conclude from what was written.
func sayMaySubmit(ctx context.Context, sh shell, engine *fga.Client, user, organization string) error {
	may, err := engine.MaySubmit(ctx, user, []string{organization}, organization, time.Now())
	if err != nil {
		return err
	}
	verb := "may not"
	if may {
		verb = "may"
	}
	_, err = fmt.Fprintf(sh.out, "now: %s %s submit for %s, when the token names it\n", user, verb, organization)
	return err
}

func grantArguments(args []string) (role, user, organization string, err error) {
	if len(args) != 3 {
		return "", "", "", errors.New("three arguments are needed: submitter or admin, a user, an organization")
	}
	role, user, organization = args[0], args[1], args[2]
	switch role {
	case "submitter", "admin":
	case "member":
		return "", "", "", errors.New("member cannot be granted: membership is the identity provider's and comes with each token")
	default:
		return "", "", "", fmt.Errorf("the role must be submitter or admin, not %q", role)
	}
	if err := identity.CheckSubject(user); err != nil {
		return "", "", "", fmt.Errorf("the user %w", err)
	}
	if err := identity.CheckOrganization(organization); err != nil {
		return "", "", "", fmt.Errorf("the organization %w", err)
	}
	return role, user, organization, nil
}

// stored says whether that very tuple stands in the engine.
func stored(ctx context.Context, engine *fga.Client, key fga.Key) (bool, error) {
	found := false
	err := engine.Read(ctx, key, func(fga.Tuple) error {
		found = true
		return nil
	})
	return found, err
}

package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/muniment/muniment/pkg/identity"
	"github.com/muniment/muniment/pkg/rpcerr"
)

// checkOrganization refuses a named organization that cannot be one, by the one
// rule that tokens are read by, too.
func checkOrganization(named *string) error {
	if named == nil {
		return nil
	}
	if err := identity.CheckOrganization(*named); err != nil {
		return rpcerr.Invalid("orgId", err.Error())
	}
	return nil
}

// submitFor returns the organization that gives the right to submit: the one
// that was named, or the first of the caller's that does.
func submitFor(ctx context.Context, engine submitters, id identity.Identity, named *string, now time.Time) (string, error) {
	organizations := id.Organizations
	if named != nil {
		if !slices.Contains(organizations, *named) {
			return "", rpcerr.NotFound(errors.New("the caller does not belong to the organization"))
		}
		organizations = []string{*named}
	}
	may, err := engine.SubmitTo(ctx, id.Subject, organizations, now)
	if err != nil {
		return "", fmt.Errorf("asking for whom the caller may submit: %w", err)
	}
	if len(may) == 0 {
		return "", rpcerr.NotFound(errors.New("the caller may not submit"))
	}
	return may[0], nil
}

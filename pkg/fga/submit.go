package fga

import (
	"context"
	"slices"
	"time"
)

// SubmitTo lists those of the caller's organizations for which he may submit,
// in the order given. Being a member is claimed by the token; may submit is
// granted and stored. Both are needed.
func (c *Client) SubmitTo(ctx context.Context, subject string, organizations []string, at time.Time) ([]string, error) {
	queries := make([]Query, 0, len(organizations))
	for _, organization := range organizations {
		queries = append(queries, canSubmit(subject, organization, at))
	}
	allowed, err := c.BatchCheck(ctx, queries)
	if err != nil {
		return nil, err
	}
	var may []string
	for i, organization := range organizations {
		if allowed[i] {
			may = append(may, organization)
		}
	}
	return may, nil
}

// MaySubmit says whether the caller may submit for one organization.
func (c *Client) MaySubmit(ctx context.Context, subject string, organizations []string, organization string, at time.Time) (bool, error) {
	if !slices.Contains(organizations, organization) {
		return false, nil
	}
	return c.Check(ctx, canSubmit(subject, organization, at))
}

// canSubmit carries no membership on purpose: asking a claimant whether he is a
// member always says yes.
func canSubmit(subject, organization string, at time.Time) Query {
	return Query{Subject: subject, Relation: "can_submit", Object: Organization(organization), At: at, HighConsistency: true}
}

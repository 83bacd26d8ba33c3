package fga

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	openfga "github.com/openfga/go-sdk"
)

const (
	// maxContextualTuples is the engine's limit for one check.
	maxContextualTuples = 100
	// maxBatchChecks is the engine's default limit for one batch.
	maxBatchChecks = 50
	// maxBatchBytes keeps a batch below the engine's message size (about 600 kB)
	// where many organizations travel with each of its checks.
	maxBatchBytes = 400 << 10
)

// Query is one question: may this subject, who belongs to these organizations
// by his token, do this to that object at this time.
type Query struct {
	Subject       string
	Organizations []string
	Relation      string
	// Object is typed, for example Archive(id).
	Object string
	// At is taken once per request from the injected clock.
	At time.Time
	// HighConsistency reads past the engine's caches.
	HighConsistency bool
}

// Check answers one query.
func (c *Client) Check(ctx context.Context, q Query) (bool, error) {
	for _, members := range memberships(q.Subject, q.Organizations) {
		allowed, err := c.check(ctx, q, members)
		if err != nil || allowed {
			return allowed, err
		}
	}
	return false, nil
}

func (c *Client) check(ctx context.Context, q Query, members *openfga.ContextualTupleKeys) (bool, error) {
	limited, cancel := c.limit(ctx)
	defer cancel()
	reply, _, err := c.api.Check(limited, c.settings.StoreID).Body(openfga.CheckRequest{
		TupleKey:             q.key(),
		ContextualTuples:     members,
		AuthorizationModelId: &c.settings.ModelID,
		Context:              q.context(),
		Consistency:          q.consistency(),
	}).Execute()
	if err != nil {
		return false, c.classify(ctx, "checking "+q.Relation, err)
	}
	if reply.Allowed == nil {
		return false, unavailable("checking "+q.Relation, "the answer says neither yes nor no", 0, nil)
	}
	return *reply.Allowed, nil
}

// BatchCheck answers any number of queries, in their order, in requests of at
// most fifty. One query that the engine could not answer fails them all.
func (c *Client) BatchCheck(ctx context.Context, queries []Query) ([]bool, error) {
	allowed := make([]bool, len(queries))
	var batch batch
	for i, q := range queries {
		for _, members := range memberships(q.Subject, q.Organizations) {
			if batch.full(q, members) {
				if err := c.send(ctx, &batch, allowed); err != nil {
					return nil, err
				}
			}
			batch.add(i, q, members)
		}
	}
	if err := c.send(ctx, &batch, allowed); err != nil {
		return nil, err
	}
	return allowed, nil
}

// batch is one request in the making. Its checks are numbered; of[n] is the
// query that check n belongs to.
type batch struct {
	items       []openfga.BatchCheckItem
	of          []int
	bytes       int
	consistency *openfga.ConsistencyPreference
}

func (b *batch) full(q Query, members *openfga.ContextualTupleKeys) bool {
	if len(b.items) == 0 {
		return false
	}
	return len(b.items) == maxBatchChecks || b.bytes+sizeOf(q, members) > maxBatchBytes || *b.consistency != *q.consistency()
}

func (b *batch) add(query int, q Query, members *openfga.ContextualTupleKeys) {
	b.items = append(b.items, openfga.BatchCheckItem{
		TupleKey:         q.key(),
		ContextualTuples: members,
		Context:          q.context(),
		CorrelationId:    strconv.Itoa(len(b.items)),
	})
	b.of = append(b.of, query)
	b.bytes += sizeOf(q, members)
	b.consistency = q.consistency()
}

// sizeOf estimates what one check adds to the request.
func sizeOf(q Query, members *openfga.ContextualTupleKeys) int {
	size := 200 + len(q.Subject) + len(q.Object)
	if members != nil {
		for _, t := range members.TupleKeys {
			size += 24 + len(t.User) + len(t.Object)
		}
	}
	return size
}

// send asks the engine, merges the answers into allowed and empties the batch.
func (c *Client) send(ctx context.Context, b *batch, allowed []bool) error {
	if len(b.items) == 0 {
		return nil
	}
	limited, cancel := c.limit(ctx)
	defer cancel()
	reply, _, err := c.api.BatchCheck(limited, c.settings.StoreID).Body(openfga.BatchCheckRequest{
		Checks:               b.items,
		AuthorizationModelId: &c.settings.ModelID,
		Consistency:          b.consistency,
	}).Execute()
	if err != nil {
		return c.classify(ctx, "checking a batch", err)
	}
	results := reply.GetResult()
	for n, query := range b.of {
		result, answered := results[strconv.Itoa(n)]
		if !answered || result.Error != nil || result.Allowed == nil {
			return unavailable("checking a batch", describe(b.items[n], result.Error), 0, nil)
		}
		allowed[query] = allowed[query] || *result.Allowed
	}
	*b = batch{}
	return nil
}

func describe(item openfga.BatchCheckItem, failed *openfga.CheckError) string {
	message := "no answer"
	if failed != nil {
		message = failed.GetMessage()
	}
	return fmt.Sprintf("%s on %s: %s", item.TupleKey.Relation, item.TupleKey.Object, message)
}

func (q Query) key() openfga.CheckRequestTupleKey {
	return openfga.CheckRequestTupleKey{User: User(q.Subject), Relation: q.Relation, Object: q.Object}
}

// context always carries current_time: a check that meets a timed grant
// without it is an error, not a no.
func (q Query) context() *map[string]any {
	return &map[string]any{"current_time": Timestamp(q.At)}
}

func (q Query) consistency() *openfga.ConsistencyPreference {
	if q.HighConsistency {
		return new(openfga.CONSISTENCYPREFERENCE_HIGHER_CONSISTENCY)
	}
	return new(openfga.CONSISTENCYPREFERENCE_MINIMIZE_LATENCY)
}

// memberships spells organizations as contextual tuples, in stretches that one
// check may carry; a subject without any still gets one check.
func memberships(subject string, organizations []string) []*openfga.ContextualTupleKeys {
	// The engine refuses one contextual tuple given twice.
	distinct := slices.Compact(slices.Sorted(slices.Values(organizations)))
	if len(distinct) == 0 {
		return []*openfga.ContextualTupleKeys{nil}
	}
	var all []*openfga.ContextualTupleKeys
	for stretch := range slices.Chunk(distinct, maxContextualTuples) {
		keys := make([]openfga.TupleKey, 0, len(stretch))
		for _, organization := range stretch {
			keys = append(keys, openfga.TupleKey{User: User(subject), Relation: "member", Object: Organization(organization)})
		}
		all = append(all, &openfga.ContextualTupleKeys{TupleKeys: keys})
	}
	return all
}

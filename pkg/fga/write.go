package fga

import (
	"context"

	openfga "github.com/openfga/go-sdk"
)

// ignore tells the engine that a tuple that is already there, or already gone,
// is no error. It is said on every request, because it is no client's setting.
const ignore = "ignore"

// Write writes and deletes in one transaction of the engine: all of it, or
// nothing and an error. A tuple that is there already with the same condition,
// and one that is gone already, count as done.
//
// The caller keeps to what the engine demands of one request: no key twice, no
// key both written and deleted, and no more tuples than its limit (100).
func (c *Client) Write(ctx context.Context, writes []Tuple, deletes []Key) error {
	if len(writes) == 0 && len(deletes) == 0 {
		return nil
	}
	request := openfga.WriteRequest{AuthorizationModelId: &c.settings.ModelID}
	if len(writes) > 0 {
		keys := make([]openfga.TupleKey, 0, len(writes))
		for _, t := range writes {
			keys = append(keys, t.sdk())
		}
		request.Writes = &openfga.WriteRequestWrites{TupleKeys: keys, OnDuplicate: new(ignore)}
	}
	if len(deletes) > 0 {
		keys := make([]openfga.TupleKeyWithoutCondition, 0, len(deletes))
		for _, k := range deletes {
			keys = append(keys, openfga.TupleKeyWithoutCondition{User: k.User, Relation: k.Relation, Object: k.Object})
		}
		request.Deletes = &openfga.WriteRequestDeletes{TupleKeys: keys, OnMissing: new(ignore)}
	}
	limited, cancel := c.limit(ctx)
	defer cancel()
	_, _, err := c.api.Write(limited, c.settings.StoreID).Body(request).Execute()
	return c.classify(ctx, "writing tuples", err)
}

func (t Tuple) sdk() openfga.TupleKey {
	key := openfga.TupleKey{User: t.User, Relation: t.Relation, Object: t.Object}
	if t.Condition != nil {
		key.Condition = &openfga.RelationshipCondition{Name: t.Condition.Name}
		if t.Condition.Context != nil {
			key.Condition.Context = &t.Condition.Context
		}
	}
	return key
}

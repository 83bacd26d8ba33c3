package fga

import (
	"context"
	"slices"
	"time"

	openfga "github.com/openfga/go-sdk"
)

// ListObjects lists the objects of a type that the query's subject stands in
// the query's relation to; the query's Object is not used. The engine stops at
// a number of results or after a time without saying so: complete is false
// where it may have, judged by the configured limits.
func (c *Client) ListObjects(ctx context.Context, q Query, objectType string) (objects []string, complete bool, err error) {
	complete = true
	for _, members := range memberships(q.Subject, q.Organizations) {
		part, whole, err := c.listObjects(ctx, q, objectType, members)
		if err != nil {
			return nil, false, err
		}
		objects = append(objects, part...)
		complete = complete && whole
	}
	slices.Sort(objects)
	return slices.Compact(objects), complete, nil
}

func (c *Client) listObjects(ctx context.Context, q Query, objectType string, members *openfga.ContextualTupleKeys) ([]string, bool, error) {
	limited, cancel := context.WithTimeout(ctx, c.settings.ListDeadline+c.settings.Timeout)
	defer cancel()
	began := c.now()
	reply, _, err := c.api.ListObjects(limited, c.settings.StoreID).Body(openfga.ListObjectsRequest{
		AuthorizationModelId: &c.settings.ModelID,
		Type:                 objectType,
		Relation:             q.Relation,
		User:                 User(q.Subject),
		ContextualTuples:     members,
		Context:              q.context(),
		Consistency:          q.consistency(),
	}).Execute()
	if err != nil {
		return nil, false, c.classify(ctx, "listing objects", err)
	}
	whole := len(reply.Objects) < c.settings.ListLimit && c.now().Sub(began) < c.settings.ListDeadline
	return reply.Objects, whole, nil
}

// Read lists the stored tuples that match filter, whose empty parts match
// anything (an Object may be a bare type with a colon if User is given). visit
// is called for each; its error ends the reading.
func (c *Client) Read(ctx context.Context, filter Key, visit func(Tuple) error) error {
	request := openfga.ReadRequest{
		TupleKey:    readKey(filter),
		PageSize:    new(int32(100)),
		Consistency: new(openfga.CONSISTENCYPREFERENCE_HIGHER_CONSISTENCY),
	}
	for {
		page, err := c.readPage(ctx, request)
		if err != nil {
			return err
		}
		for _, t := range page.Tuples {
			if err := visit(tupleOf(t.Key)); err != nil {
				return err
			}
		}
		if page.ContinuationToken == "" {
			return nil
		}
		request.ContinuationToken = &page.ContinuationToken
	}
}

func (c *Client) readPage(ctx context.Context, request openfga.ReadRequest) (openfga.ReadResponse, error) {
	limited, cancel := c.limit(ctx)
	defer cancel()
	page, _, err := c.api.Read(limited, c.settings.StoreID).Body(request).Execute()
	return page, c.classify(ctx, "reading tuples", err)
}

func readKey(filter Key) *openfga.ReadRequestTupleKey {
	if filter == (Key{}) {
		return nil
	}
	var key openfga.ReadRequestTupleKey
	for _, part := range []struct {
		value string
		into  **string
	}{{filter.User, &key.User}, {filter.Relation, &key.Relation}, {filter.Object, &key.Object}} {
		if part.value != "" {
			*part.into = new(part.value)
		}
	}
	return &key
}

func tupleOf(key openfga.TupleKey) Tuple {
	t := Tuple{User: key.User, Relation: key.Relation, Object: key.Object}
	if key.Condition != nil && key.Condition.Name != "" {
		t.Condition = &Condition{Name: key.Condition.Name, Context: key.Condition.GetContext()}
	}
	return t
}

// Until is when a timed grant ends; ok is false for a tuple that is none.
func (t Tuple) Until() (until time.Time, ok bool) {
	if t.Condition == nil {
		return time.Time{}, false
	}
	granted, _ := t.Condition.Context["grant_time"].(string)
	length, _ := t.Condition.Context["grant_duration"].(string)
	at, err := time.Parse(time.RFC3339Nano, granted)
	if err != nil {
		return time.Time{}, false
	}
	d, err := time.ParseDuration(length)
	if err != nil {
		return time.Time{}, false
	}
	return at.Add(d).UTC(), true
}

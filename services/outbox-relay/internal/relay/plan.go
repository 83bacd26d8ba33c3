package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

// op is one tuple to write or to delete.
type op struct {
	tuple  fga.Tuple
	delete bool
	bytes  int
}

// delivery is a row on its way: what of it is still to land, in order.
type delivery struct {
	row  store.Row
	ops  []op
	done int
}

// parse reads a row's payload: deletes before writes, each in the payload's
// order, exact repeats left out. What has landed already (row.TuplesDone of that
// list, which is the same whatever the limits are) is left out too.
//
// A key that the payload's form does not have is an error, not noise: a
// misspelt "condition" would otherwise grant for ever what was granted for a
// week. Numbers keep their spelling.
func parse(row store.Row) (*delivery, error) {
	var payload struct {
		Writes  []fga.Tuple `json:"writes"`
		Deletes []fga.Key   `json:"deletes"`
	}
	if err := decode(row.Payload, &payload); err != nil {
		return nil, fmt.Errorf("reading the payload: %w", err)
	}
	d := &delivery{row: row, done: row.TuplesDone}
	seen := make(map[spelling]bool, len(payload.Writes)+len(payload.Deletes))
	add := func(tuple fga.Tuple, isDelete bool) error {
		s, err := spellingOf(tuple, isDelete)
		if err == nil && !seen[s] {
			seen[s] = true
			d.ops = append(d.ops, op{tuple: tuple, delete: isDelete, bytes: s.size()})
		}
		return err
	}
	for _, key := range payload.Deletes {
		if err := add(fga.Tuple{User: key.User, Relation: key.Relation, Object: key.Object}, true); err != nil {
			return nil, err
		}
	}
	for _, tuple := range payload.Writes {
		if err := add(tuple, false); err != nil {
			return nil, err
		}
	}
	if len(d.ops) == 0 {
		return nil, errors.New("the payload holds no tuple")
	}
	d.ops = d.ops[min(d.done, len(d.ops)):]
	return d, nil
}

// spelling is what two ops have in common when they are the same.
type spelling struct {
	key       fga.Key
	condition string
	delete    bool
}

func spellingOf(tuple fga.Tuple, isDelete bool) (spelling, error) {
	s := spelling{key: tuple.Key(), delete: isDelete}
	if tuple.Condition == nil {
		return s, nil
	}
	condition, err := json.Marshal(tuple.Condition) // sorts the keys of its context
	if err != nil {
		return spelling{}, fmt.Errorf("spelling a condition: %w", err)
	}
	s.condition = string(condition)
	return s, nil
}

// size is about what a tuple takes in a request, the names of its fields included.
func (s spelling) size() int {
	return 60 + len(s.key.User) + len(s.key.Relation) + len(s.key.Object) + len(s.condition)
}

func decode(raw []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something stands after the value")
	}
	return nil
}

// limits bound one request to the engine.
type limits struct {
	tuples, bytes int
}

// prefix is how many of the ops, from the first, may go in one request. The
// engine refuses one that names a tuple twice, be it written twice or written
// and deleted, even where repeats are ignored; the second then waits for the
// next request, which also keeps their order.
func (l limits) prefix(ops []op) int {
	named := make(map[fga.Key]bool, len(ops))
	size := 0
	for i, o := range ops {
		size += o.bytes
		if i == l.tuples || (i > 0 && size > l.bytes) || named[o.tuple.Key()] {
			return i
		}
		named[o.tuple.Key()] = true
	}
	return len(ops)
}

// pack puts whole rows together into as few requests as their order gives. The
// rows of one claim share no object, so no two of them name the same tuple and
// their requests may land in any order. A row that needs several requests by
// itself stands alone.
func (l limits) pack(rows []*delivery) [][]*delivery {
	var packs [][]*delivery
	var open []*delivery
	tuples, size := 0, 0
	for _, d := range rows {
		if l.prefix(d.ops) < len(d.ops) {
			packs = append(packs, []*delivery{d})
			continue
		}
		rowBytes := 0
		for _, o := range d.ops {
			rowBytes += o.bytes
		}
		if len(open) > 0 && (tuples+len(d.ops) > l.tuples || size+rowBytes > l.bytes) {
			packs = append(packs, open)
			open, tuples, size = nil, 0, 0
		}
		open = append(open, d)
		tuples += len(d.ops)
		size += rowBytes
	}
	if len(open) > 0 {
		packs = append(packs, open)
	}
	return packs
}

package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// object is a JSON object whose names are exact and stand once. The standard
// decoder matches names in any case and lets the last of several win, which
// would let two readers of one manifest see two captures.
type object struct {
	path   string
	fields map[string]json.RawMessage
}

func parseRoot(data []byte) (object, error) {
	if len(data) > MaxBytes {
		return object{}, &Error{"$", fmt.Sprintf("is over %d bytes", MaxBytes)}
	}
	if !utf8.Valid(data) {
		return object{}, &Error{"$", "must be UTF-8"}
	}
	if !json.Valid(data) {
		return object{}, &Error{"$", "must be one whole JSON object"}
	}
	return parseObject("$", data)
}

func parseObject(path string, data []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return object{}, &Error{path, "must be an object"}
	}
	o := object{path: path, fields: make(map[string]json.RawMessage)}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return object{}, &Error{path, "must be an object"}
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return object{}, &Error{path, "must be an object"}
		}
		key, _ := name.(string)
		if _, twice := o.fields[key]; twice {
			return object{}, &Error{o.at(key), "stands twice"}
		}
		o.fields[key] = value
	}
	return o, nil
}

func (o object) at(name string) string { return o.path + "." + name }

// has says whether the field is there and not null, which equals absent.
func (o object) has(name string) bool {
	raw, ok := o.fields[name]
	return ok && string(raw) != "null"
}

// child reads an optional object; absent, its fields are nil.
func (o object) child(name string) (object, error) {
	if !o.has(name) {
		return object{path: o.at(name)}, nil
	}
	return parseObject(o.at(name), o.fields[name])
}

// text reads a required text that is not empty.
func (o object) text(name string) (string, error) {
	if !o.has(name) {
		return "", &Error{o.at(name), "is required"}
	}
	s, err := o.anyText(name)
	if err == nil && s == "" {
		return "", &Error{o.at(name), "must not be empty"}
	}
	return s, err
}

func (o object) anyText(name string) (string, error) {
	var s string
	if err := json.Unmarshal(o.fields[name], &s); err != nil {
		return "", &Error{o.at(name), "must be a text"}
	}
	// The database's text holds no NUL.
	if strings.ContainsRune(s, 0) {
		return "", &Error{o.at(name), "must not hold NUL"}
	}
	return s, nil
}

// texts reads an optional list of texts.
func (o object) texts(name string) ([]string, error) {
	list := []string{}
	if !o.has(name) {
		return list, nil
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(o.fields[name], &raw); err != nil {
		return nil, &Error{o.at(name), "must be a list of texts"}
	}
	for i, value := range raw {
		var s *string
		if err := json.Unmarshal(value, &s); err != nil || s == nil {
			return nil, &Error{fmt.Sprintf("%s[%d]", o.at(name), i), "must be a text"}
		}
		if strings.ContainsRune(*s, 0) {
			return nil, &Error{fmt.Sprintf("%s[%d]", o.at(name), i), "must not hold NUL"}
		}
		list = append(list, *s)
	}
	return list, nil
}

// flag reads a truth value of an object that is there. Protobuf JSON drops
// false; in the other dialects what is not said is not known.
func (o object) flag(name string, dialect Dialect) (*bool, error) {
	var value bool
	if !o.has(name) {
		if dialect == DialectB {
			return &value, nil
		}
		return nil, nil //nolint:nilnil // three-valued: nil is 'not recorded'
	}
	if err := json.Unmarshal(o.fields[name], &value); err != nil {
		return nil, &Error{o.at(name), "must be true or false"}
	}
	return &value, nil
}

// count checks a required integer that is not negative; quoted says whether a
// digit text passes for one.
func (o object) count(name string, quoted bool) error {
	if !o.has(name) {
		return &Error{o.at(name), "is required"}
	}
	digits := string(o.fields[name])
	if text, ok := strings.CutPrefix(digits, `"`); ok && quoted {
		if _, err := strconv.ParseUint(strings.TrimSuffix(text, `"`), 10, 63); err != nil {
			return &Error{o.at(name), "must be a number that is not negative"}
		}
		return nil
	}
	// JSON may spell an integer as 1e3 or 2.0.
	if n, err := strconv.ParseFloat(digits, 64); err != nil || n < 0 || n > 1<<63 {
		return &Error{o.at(name), "must be a number that is not negative"}
	}
	return nil
}

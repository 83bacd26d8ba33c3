package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// removedFieldsName is the member that names what was removed from a body.
const removedFieldsName = "_archive_removed_fields"

// anyDepth begins a path that is looked for at every depth.
const anyDepth = "**."

// withoutFields returns a JSON object without the members that the paths name,
// and with the list of those found under _archive_removed_fields. An object in
// which none was found, and a value that is no object, pass as they are. An
// object that has a member of that name already is refused: the list is ours.
func withoutFields(body []byte, paths []string) ([]byte, error) {
	var out bytes.Buffer
	r := remover{
		dec:   jsontext.NewDecoder(bytes.NewReader(body)),
		enc:   jsontext.NewEncoder(&out),
		exact: make(map[string]bool), deep: make(map[string]bool), found: make(map[string]bool),
	}
	for _, p := range paths {
		if name, ok := strings.CutPrefix(p, anyDepth); ok {
			r.deep[name] = true
		} else {
			r.exact[p] = true
		}
	}
	if err := r.value("", true); err != nil {
		return nil, err
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the item")
	}
	return out.Bytes(), nil
}

type remover struct {
	dec         *jsontext.Decoder
	enc         *jsontext.Encoder
	exact, deep map[string]bool
	found       map[string]bool
}

// value copies one value; path names the member it stands in, arrays left out.
func (r remover) value(path string, root bool) error {
	switch r.dec.PeekKind() {
	case '{':
		return r.object(path, root)
	case '[':
		return r.array(path)
	}
	v, err := r.dec.ReadValue()
	if err != nil {
		return fmt.Errorf("reading a value: %w", err)
	}
	return r.enc.WriteValue(v)
}

func (r remover) array(path string) error {
	if err := r.token(); err != nil {
		return err
	}
	for r.dec.PeekKind() != ']' {
		if err := r.value(path, false); err != nil {
			return err
		}
	}
	return r.token()
}

func (r remover) object(path string, root bool) error {
	if err := r.token(); err != nil {
		return err
	}
	for r.dec.PeekKind() != '}' {
		token, err := r.dec.ReadToken()
		if err != nil {
			return fmt.Errorf("reading a name: %w", err)
		}
		name := token.String()
		full := name
		if path != "" {
			full = path + "." + name
		}
		switch {
		case root && name == removedFieldsName:
			return fmt.Errorf("it has a member %s of its own", removedFieldsName)
		case r.exact[full] || r.deep[name]:
			if err := r.dec.SkipValue(); err != nil {
				return fmt.Errorf("skipping a value: %w", err)
			}
			r.found[full] = true
			continue
		}
		if err := r.enc.WriteToken(jsontext.String(name)); err != nil {
			return fmt.Errorf("writing a name: %w", err)
		}
		if err := r.value(full, false); err != nil {
			return err
		}
	}
	if root && len(r.found) > 0 {
		if err := r.list(); err != nil {
			return err
		}
	}
	return r.token()
}

// list writes the member that names what was removed, in order.
func (r remover) list() error {
	tokens := []jsontext.Token{jsontext.String(removedFieldsName), jsontext.BeginArray}
	for _, path := range slices.Sorted(maps.Keys(r.found)) {
		tokens = append(tokens, jsontext.String(path))
	}
	for _, t := range append(tokens, jsontext.EndArray) {
		if err := r.enc.WriteToken(t); err != nil {
			return fmt.Errorf("writing %s: %w", removedFieldsName, err)
		}
	}
	return nil
}

// token copies one delimiter.
func (r remover) token() error {
	t, err := r.dec.ReadToken()
	if err != nil {
		return fmt.Errorf("reading a bracket: %w", err)
	}
	return r.enc.WriteToken(t)
}

package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/muniment/muniment/pkg/rpcerr"
)

// errBodyTooLarge is told by its number.
var errBodyTooLarge = rpcerr.TooLarge("the body", maxBodyBytes)

const oneObject = "must be exactly one JSON object"

// decodeBody reads a body strictly: exactly one object, no key twice, none that
// the contract does not know, valid UTF-8, no value of another type. An error is
// an InvalidArgument that names the field. Keys that the path has set (taken)
// are unknown to a body.
func decodeBody(body []byte, msg protoreflect.Message, taken []protoreflect.FieldDescriptor) error {
	d := decoder{jsontext.NewDecoder(bytes.NewBuffer(body))}
	if d.PeekKind() != '{' {
		return rpcerr.Invalid("body", oneObject)
	}
	if err := d.object(msg, "", taken); err != nil {
		return err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return rpcerr.Invalid("body", oneObject)
	}
	return nil
}

type decoder struct{ *jsontext.Decoder }

// object reads an object into msg. path is where it stands, spelled as callers
// write it: results[1].
func (d decoder) object(msg protoreflect.Message, path string, taken []protoreflect.FieldDescriptor) error {
	if _, err := d.ReadToken(); err != nil {
		return malformed(err)
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return malformed(err)
		}
		field := msg.Descriptor().Fields().ByJSONName(name.String())
		at := join(path, name.String())
		if field == nil || slices.Contains(taken, field) {
			return rpcerr.Invalid(at, "is not a known key")
		}
		if err := d.field(msg, field, at); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return malformed(err)
	}
	return nil
}

// field reads one value; null leaves the field absent.
func (d decoder) field(msg protoreflect.Message, field protoreflect.FieldDescriptor, at string) error {
	if d.PeekKind() == 'n' {
		if _, err := d.ReadToken(); err != nil {
			return malformed(err)
		}
		return nil
	}
	if field.IsList() {
		return d.list(msg.Mutable(field).List(), field, at)
	}
	value, err := d.value(msg.NewField, field, at)
	if err != nil {
		return err
	}
	msg.Set(field, value)
	return nil
}

func (d decoder) list(list protoreflect.List, field protoreflect.FieldDescriptor, at string) error {
	if err := d.want('[', at, "must be a list"); err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != nil {
		return malformed(err)
	}
	newElement := func(protoreflect.FieldDescriptor) protoreflect.Value { return list.NewElement() }
	for d.PeekKind() != ']' {
		value, err := d.value(newElement, field, fmt.Sprintf("%s[%d]", at, list.Len()))
		if err != nil {
			return err
		}
		list.Append(value)
	}
	if _, err := d.ReadToken(); err != nil {
		return malformed(err)
	}
	return nil
}

// value reads one value of the field's kind.
func (d decoder) value(fresh func(protoreflect.FieldDescriptor) protoreflect.Value, field protoreflect.FieldDescriptor, at string) (protoreflect.Value, error) {
	if field.Message() != nil && !isTimestamp(field.Message()) {
		if err := d.want('{', at, "must be an object"); err != nil {
			return protoreflect.Value{}, err
		}
		value := fresh(field)
		return value, d.object(value.Message(), at, nil)
	}
	kind := d.PeekKind()
	var err error
	switch {
	case field.Kind() == protoreflect.BoolKind:
		if kind != 't' && kind != 'f' {
			return protoreflect.Value{}, d.wrong(at, "must be true or false")
		}
	case isInteger(field.Kind()):
		if kind != '0' && kind != '"' {
			return protoreflect.Value{}, d.wrong(at, "must be an integer")
		}
	default:
		err = d.want('"', at, "must be a text")
	}
	if err != nil {
		return protoreflect.Value{}, err
	}
	token, err := d.ReadToken()
	if err != nil {
		return protoreflect.Value{}, malformed(err)
	}
	text := token.String()
	if kind == '0' {
		// 3.0 is the integer 3; any other fraction, and an exponent, is none.
		if whole, zeros, ok := strings.Cut(text, "."); ok && strings.Trim(zeros, "0") == "" {
			text = whole
		}
	}
	value, err := parseText(field, text)
	if err != nil {
		return protoreflect.Value{}, rpcerr.Invalid(at, err.Error())
	}
	return value, nil
}

// want checks what comes next.
func (d decoder) want(kind jsontext.Kind, at, rule string) error {
	if d.PeekKind() != kind {
		return d.wrong(at, rule)
	}
	return nil
}

// wrong tells a broken rule, or, where the text is not even JSON, that.
func (d decoder) wrong(at, rule string) error {
	if d.PeekKind() == 0 {
		if _, err := d.ReadToken(); err != nil {
			return malformed(err)
		}
	}
	return rpcerr.Invalid(at, rule)
}

// malformed tells what is wrong with the text itself, where it is.
func malformed(err error) error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return rpcerr.Invalid("body", oneObject)
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return rpcerr.Invalid(pathOf(syntax.JSONPointer), "stands there twice")
	}
	return rpcerr.Invalid("body", fmt.Sprintf("is not valid JSON in UTF-8, at byte %d", syntax.ByteOffset))
}

// pathOf spells a JSON pointer as object does. A number is taken for a place in
// a list: no key of ours is one.
func pathOf(p jsontext.Pointer) string {
	path := ""
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			path += "[" + token + "]"
			continue
		}
		path = join(path, token)
	}
	return path
}

// maxNameBytes bounds what an error repeats of a key that a caller made up.
const maxNameBytes = 64

func join(path, name string) string {
	if len(name) > maxNameBytes {
		name = strings.ToValidUTF8(name[:maxNameBytes], "") + "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// parseText reads a scalar or a timestamp from text: a path's segment, a query's
// value, or a JSON value without its quotes. The error is the broken rule. 1 and
// 0 are how a query says true and false; in JSON they are numbers.
func parseText(field protoreflect.FieldDescriptor, text string) (protoreflect.Value, error) {
	switch kind := field.Kind(); {
	case kind == protoreflect.StringKind:
		return protoreflect.ValueOfString(text), checkText(text)
	case kind == protoreflect.BoolKind:
		switch text {
		case "true", "1":
			return protoreflect.ValueOfBool(true), nil
		case "false", "0":
			return protoreflect.ValueOfBool(false), nil
		}
		return protoreflect.Value{}, errors.New("must be true or false")
	case isInteger(kind):
		return parseInteger(kind, text)
	}
	return parseTimestamp(field.Message(), text)
}

// checkText: an empty text is never a value, and no store of ours keeps a NUL.
func checkText(text string) error {
	switch {
	case text == "":
		return errors.New("must not be empty")
	case !utf8.ValidString(text):
		return errors.New("must be valid UTF-8")
	case strings.ContainsRune(text, 0):
		return errors.New("must not contain NUL")
	}
	return nil
}

func isInteger(kind protoreflect.Kind) bool {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return true
	}
	return false
}

func parseInteger(kind protoreflect.Kind, text string) (protoreflect.Value, error) {
	if strings.HasPrefix(text, "+") {
		return protoreflect.Value{}, errors.New("must be an integer")
	}
	var value protoreflect.Value
	var err error
	switch kind {
	case protoreflect.Int32Kind:
		var n int64
		n, err = strconv.ParseInt(text, 10, 32)
		value = protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		value = protoreflect.ValueOfInt64(n)
	case protoreflect.Uint32Kind:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 32)
		value = protoreflect.ValueOfUint32(uint32(n))
	default:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 64)
		value = protoreflect.ValueOfUint64(n)
	}
	if errors.Is(err, strconv.ErrRange) {
		return protoreflect.Value{}, errors.New("is out of range")
	}
	if err != nil {
		return protoreflect.Value{}, errors.New("must be an integer")
	}
	return value, nil
}

const timestampName = "google.protobuf.Timestamp"

func isTimestamp(d protoreflect.MessageDescriptor) bool { return d.FullName() == timestampName }

// parseTimestamp reads RFC 3339 with any offset. UnmarshalText is stricter than
// time.Parse, but for a comma before the fraction.
func parseTimestamp(d protoreflect.MessageDescriptor, text string) (protoreflect.Value, error) {
	var t time.Time
	if err := t.UnmarshalText([]byte(text)); err != nil || strings.Contains(text, ",") {
		return protoreflect.Value{}, errors.New("must be a timestamp of RFC 3339")
	}
	stamp := timestamppb.New(t)
	if err := stamp.CheckValid(); err != nil {
		return protoreflect.Value{}, errors.New("must be a timestamp of the years 1 to 9999")
	}
	msg := messageType(d).New()
	msg.Set(d.Fields().ByNumber(1), protoreflect.ValueOfInt64(stamp.GetSeconds()))
	msg.Set(d.Fields().ByNumber(2), protoreflect.ValueOfInt32(stamp.GetNanos()))
	return protoreflect.ValueOfMessage(msg), nil
}

// decodable says what a request would need that decode.go does not read. seen
// guards against messages that contain themselves.
func decodable(d protoreflect.MessageDescriptor, seen []protoreflect.FullName) error {
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		oneof := field.ContainingOneof()
		kind := field.Kind()
		switch {
		case field.IsMap() || oneof != nil && !oneof.IsSynthetic():
			return fmt.Errorf("%s: maps and oneofs are not read here", field.FullName())
		case field.Message() != nil && isTimestamp(field.Message()):
		case field.Message() != nil:
			if err := nested(decodable, field.Message(), seen); err != nil {
				return err
			}
		case kind != protoreflect.StringKind && kind != protoreflect.BoolKind && !isInteger(kind):
			return fmt.Errorf("%s: fields of type %s are not read here", field.FullName(), kind)
		}
	}
	return nil
}

func nested(check func(protoreflect.MessageDescriptor, []protoreflect.FullName) error, d protoreflect.MessageDescriptor, seen []protoreflect.FullName) error {
	for _, name := range seen {
		if name == d.FullName() {
			return fmt.Errorf("%s contains itself", name)
		}
	}
	return check(d, append(slices.Clip(seen), d.FullName()))
}

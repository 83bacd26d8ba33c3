package gateway

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// encode writes a reply as the contract wants it: every key is there, absent
// values are null, 64-bit integers are numbers, timestamps are UTC and cut to
// microseconds.
func encode(b *bytes.Buffer, msg protoreflect.Message) error {
	// Names come from the contract: none stands there twice.
	if err := (encoder{jsontext.NewEncoder(b, jsontext.AllowDuplicateNames(true))}).message(msg); err != nil {
		return err
	}
	// The encoder ends a value with a line break.
	b.Truncate(b.Len() - 1)
	return nil
}

type encoder struct{ *jsontext.Encoder }

func (e encoder) message(msg protoreflect.Message) error {
	if err := e.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	fields := msg.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if err := e.WriteToken(jsontext.String(field.JSONName())); err != nil {
			return err
		}
		if err := e.field(msg, field); err != nil {
			return err
		}
	}
	return e.WriteToken(jsontext.EndObject)
}

func (e encoder) field(msg protoreflect.Message, field protoreflect.FieldDescriptor) error {
	if field.HasPresence() && !msg.Has(field) {
		return e.WriteToken(jsontext.Null)
	}
	if !field.IsList() {
		return e.value(msg.Get(field), field)
	}
	if err := e.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	list := msg.Get(field).List()
	for i := range list.Len() {
		if err := e.value(list.Get(i), field); err != nil {
			return err
		}
	}
	return e.WriteToken(jsontext.EndArray)
}

func (e encoder) value(v protoreflect.Value, field protoreflect.FieldDescriptor) error {
	switch field.Kind() {
	case protoreflect.MessageKind:
		if isTimestamp(field.Message()) {
			return e.WriteToken(jsontext.String(timestamp(v.Message())))
		}
		return e.message(v.Message())
	case protoreflect.StringKind:
		return e.WriteToken(jsontext.String(v.String()))
	case protoreflect.BoolKind:
		return e.WriteToken(jsontext.Bool(v.Bool()))
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return e.WriteToken(jsontext.Int(v.Int()))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return e.WriteToken(jsontext.Uint(v.Uint()))
	case protoreflect.DoubleKind:
		return e.WriteToken(jsontext.Float(v.Float()))
	case protoreflect.BytesKind:
		return e.WriteToken(jsontext.String(base64.StdEncoding.EncodeToString(v.Bytes())))
	default:
		return fmt.Errorf("fields of type %s are not written here", field.Kind())
	}
}

// timestamp cuts what is below a microsecond; Format never rounds.
func timestamp(stamp protoreflect.Message) string {
	fields := stamp.Descriptor().Fields()
	t := time.Unix(stamp.Get(fields.ByNumber(1)).Int(), stamp.Get(fields.ByNumber(2)).Int())
	return t.UTC().Format("2006-01-02T15:04:05.999999Z07:00")
}

// encodable says what a reply would need that encode does not write.
func encodable(d protoreflect.MessageDescriptor, seen []protoreflect.FullName) error {
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		switch field.Kind() {
		case protoreflect.EnumKind, protoreflect.FloatKind, protoreflect.GroupKind, protoreflect.Sint32Kind, protoreflect.Sint64Kind,
			protoreflect.Fixed32Kind, protoreflect.Fixed64Kind, protoreflect.Sfixed32Kind, protoreflect.Sfixed64Kind:
			return fmt.Errorf("%s: fields of type %s are not written here", field.FullName(), field.Kind())
		}
		if field.IsMap() {
			return fmt.Errorf("%s: maps are not written here", field.FullName())
		}
		if field.Message() != nil && !isTimestamp(field.Message()) {
			if err := nested(encodable, field.Message(), seen); err != nil {
				return err
			}
		}
	}
	return nil
}

func isRetryInfo(detail any) bool {
	_, ok := detail.(*errdetails.RetryInfo)
	return ok
}

package gateway

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/muniment/muniment/pkg/rpcerr"
)

// decodeQuery reads the parameters that the request knows; others are ignored,
// and so are those that the path has set.
func decodeQuery(raw string, msg protoreflect.Message, taken []protoreflect.FieldDescriptor) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return rpcerr.Invalid("query", "is not well-formed")
	}
	fields := msg.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		values := query[field.JSONName()]
		if len(values) == 0 || slices.Contains(taken, field) {
			continue
		}
		if err := setFromQuery(msg, field, values); err != nil {
			return rpcerr.Invalid(field.JSONName(), err.Error())
		}
	}
	return nil
}

func setFromQuery(msg protoreflect.Message, field protoreflect.FieldDescriptor, values []string) error {
	if !field.IsList() && len(values) > 1 {
		return fmt.Errorf("stands there twice")
	}
	for _, text := range values {
		if field.Message() != nil {
			// An offset's plus that nobody escaped arrives as a space, and a
			// timestamp has no space of its own.
			text = strings.Replace(text, " ", "+", 1)
		}
		value, err := parseText(field, text)
		if err != nil {
			return err
		}
		if field.IsList() {
			msg.Mutable(field).List().Append(value)
			continue
		}
		msg.Set(field, value)
	}
	return nil
}

// queryable says what a request without a body would need that a query cannot
// carry.
func queryable(d protoreflect.MessageDescriptor) error {
	for i := range d.Fields().Len() {
		if field := d.Fields().Get(i); field.Message() != nil && !isTimestamp(field.Message()) {
			return fmt.Errorf("%s cannot stand in a query", field.FullName())
		}
	}
	return nil
}

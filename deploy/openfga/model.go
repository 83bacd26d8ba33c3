// Package openfga holds the authorization model and brings it to the engine. It
// writes models, never tuples; services only ever read the ids it prints.
package openfga

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/openfga/language/pkg/go/transformer"
)

//go:embed model.fga
var dsl string

// Model is model.fga in the engine's JSON form.
func Model() (json.RawMessage, error) {
	text, err := transformer.TransformDSLToJSON(dsl)
	if err != nil {
		return nil, fmt.Errorf("reading model.fga: %w", err)
	}
	return json.RawMessage(text), nil
}

// normalForm spells a model so that two are the same if and only if their texts
// are. The engine fills in members of the JSON form that the language omits.
func normalForm(model json.RawMessage) (string, error) {
	text, err := transformer.TransformJSONStringToDSL(string(model))
	if err != nil {
		return "", fmt.Errorf("spelling a model: %w", err)
	}
	return *text, nil
}

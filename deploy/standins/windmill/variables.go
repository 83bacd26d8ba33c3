package windmill

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
)

// Variables are Windmill's variables: paths such as f/muniment/gateway_url with
// a text each.
type Variables interface {
	Get(ctx context.Context, path string) (string, error)
}

// VariableMap holds variables in memory.
type VariableMap map[string]string

// Get implements Variables.
func (m VariableMap) Get(_ context.Context, path string) (string, error) {
	value, ok := m[path]
	if !ok {
		return "", fmt.Errorf("there is no variable %s", path)
	}
	return value, nil
}

// VariableFile is a JSON file, {"f/muniment/gateway_url": "…"}, read anew for
// each step, so that a token in it can be renewed while the stand-in runs.
type VariableFile string

// Get implements Variables.
func (f VariableFile) Get(ctx context.Context, path string) (string, error) {
	data, err := os.ReadFile(string(f))
	if err != nil {
		return "", fmt.Errorf("reading the variables: %w", err)
	}
	var all VariableMap
	if err := json.Unmarshal(data, &all); err != nil {
		return "", fmt.Errorf("reading the variables from %s: want a JSON object of texts", string(f))
	}
	return all.Get(ctx, path)
}

package windmill

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// inputTransform is one input of a step as flow.yaml has it.
type inputTransform struct {
	Type  string    `yaml:"type"`
	Expr  string    `yaml:"expr"`
	Value yaml.Node `yaml:"value"`
}

// source says where an expression's value begins.
type source int

const (
	fromStatic source = iota
	fromVariable
	fromInput
	fromIteration
	fromResult
)

// transform is an inputTransform that has been understood.
type transform struct {
	from source
	// static is the value itself.
	static any
	// variable is the path of the variable whose value it is.
	variable string
	// step is the step whose result it is.
	step string
	// path leads into the value.
	path []string
}

var (
	identifier = `[A-Za-z_][A-Za-z0-9_]*`
	expression = regexp.MustCompile(`^(flow_input|results)((?:\.` + identifier + `)+)$`)
)

const allowedForms = "flow_input.x, results.a.b, flow_input.iter.value.c or a static value"

// parse understands an input or refuses it.
func (t inputTransform) parse() (transform, error) {
	switch t.Type {
	case "static":
		if t.Expr != "" {
			return transform{}, errors.New("a static input has no expr")
		}
		return parseStatic(t.Value)
	case "javascript":
		if !t.Value.IsZero() {
			return transform{}, errors.New("a javascript input has no value")
		}
		return parseExpression(t.Expr)
	}
	return transform{}, fmt.Errorf("the input's type is %q; want static or javascript", t.Type)
}

func parseStatic(node yaml.Node) (transform, error) {
	var value any
	if !node.IsZero() {
		if err := node.Decode(&value); err != nil {
			return transform{}, fmt.Errorf("reading the static value: %w", err)
		}
	}
	text, isText := value.(string)
	if !isText {
		return transform{from: fromStatic, static: value}, nil
	}
	if path, ok := strings.CutPrefix(text, "$var:"); ok {
		return transform{from: fromVariable, variable: path}, nil
	}
	if strings.HasPrefix(text, "$res:") {
		return transform{}, fmt.Errorf("%q is a resource; the stand-in knows variables ($var:) only", text)
	}
	return transform{from: fromStatic, static: text}, nil
}

func parseExpression(expr string) (transform, error) {
	match := expression.FindStringSubmatch(expr)
	if match == nil {
		return transform{}, fmt.Errorf("the expression %q is not of the forms %s", expr, allowedForms)
	}
	path := strings.Split(match[2][1:], ".")
	if match[1] == "results" {
		return transform{from: fromResult, step: path[0], path: path[1:]}, nil
	}
	if path[0] != "iter" {
		return transform{from: fromInput, path: path}, nil
	}
	if len(path) < 2 || path[1] != "value" {
		return transform{}, fmt.Errorf("the expression %q is not of the forms %s", expr, allowedForms)
	}
	return transform{from: fromIteration, path: path[2:]}, nil
}

// scope is what expressions see.
type scope struct {
	input     map[string]any
	iteration any
	results   map[string]any
}

// value evaluates the input. As in JavaScript a member that is not there is
// null, and a member of null is an error.
func (t transform) value(ctx context.Context, s scope, variables Variables) (any, error) {
	switch t.from {
	case fromStatic:
		return t.static, nil
	case fromVariable:
		return variables.Get(ctx, t.variable)
	case fromInput:
		return walk(s.input, "flow_input", t.path)
	case fromIteration:
		return walk(s.iteration, "flow_input.iter.value", t.path)
	default:
		return walk(s.results[t.step], "results."+t.step, t.path)
	}
}

func walk(value any, at string, path []string) (any, error) {
	for _, member := range path {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s has no member %s: it is no object", at, member)
		}
		value = object[member]
		at += "." + member
	}
	return value, nil
}

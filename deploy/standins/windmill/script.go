package windmill

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scriptMetadata is the part of a script.yaml that we hold against the script.
type scriptMetadata struct {
	Lock   string `yaml:"lock"`
	Kind   string `yaml:"kind"`
	Schema struct {
		Properties map[string]any `yaml:"properties"`
	} `yaml:"schema"`
}

// parameter is one parameter of a script's main function.
type parameter struct {
	name, goType string
}

// script is a Go script of the workspace folder.
type script struct {
	path       string
	source     []byte
	goMod      string
	parameters []parameter
}

// readScript reads a script with its metadata and lock, and holds them against
// each other.
func readScript(root, path string) (*script, error) {
	base := filepath.Join(root, filepath.FromSlash(path))
	source, err := os.ReadFile(base + ".go")
	if err != nil {
		return nil, fmt.Errorf("reading the script: %w", err)
	}
	data, err := os.ReadFile(base + ".script.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the script's metadata: %w", err)
	}
	var metadata scriptMetadata
	if err := yaml.Unmarshal(data, &metadata); err != nil {
		return nil, fmt.Errorf("reading the script's metadata: %w", err)
	}
	if want := "!inline " + path + ".script.lock"; metadata.Lock != want || metadata.Kind != "script" {
		return nil, fmt.Errorf("the metadata has lock %q and kind %q; want %q and %q", metadata.Lock, metadata.Kind, want, "script")
	}
	lock, err := os.ReadFile(base + ".script.lock")
	if err != nil {
		return nil, fmt.Errorf("reading the script's lock: %w", err)
	}
	goMod, goSum, found := strings.Cut(string(lock), "//go.sum\n")
	if !found || !strings.HasPrefix(goMod, "module mymod\n") {
		return nil, errors.New("the lock is not a go.mod of module mymod, the line //go.sum, and a go.sum")
	}
	if goSum != "" {
		return nil, errors.New("the lock names dependencies; our scripts use the standard library alone")
	}
	parameters, err := signature(path, source)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range parameters {
		names = append(names, p.name)
	}
	slices.Sort(names)
	if properties := slices.Sorted(maps.Keys(metadata.Schema.Properties)); !slices.Equal(names, properties) {
		return nil, fmt.Errorf("main takes %v and the schema describes %v", names, properties)
	}
	return &script{path: path, source: source, goMod: goMod, parameters: parameters}, nil
}

// signature reads main's parameters the way Windmill does, and refuses what
// Windmill would misread.
func signature(path string, source []byte) ([]parameter, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path+".go", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing the script: %w", err)
	}
	if file.Name.Name != "inner" {
		return nil, fmt.Errorf("the script's package is %s; Windmill wants inner", file.Name.Name)
	}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || fn.Name.Name != "main" {
			continue
		}
		if fn.Type.Results == nil || fn.Type.Results.NumFields() != 2 {
			return nil, errors.New("main must return a result and an error")
		}
		return readParameters(files, fn.Type.Params.List)
	}
	return nil, errors.New("the script has no main function")
}

func readParameters(files *token.FileSet, fields []*ast.Field) ([]parameter, error) {
	parameters := make([]parameter, 0, len(fields))
	for _, field := range fields {
		if len(field.Names) != 1 {
			return nil, errors.New("main's parameters must have a type each: Windmill drops all but the first name of a group")
		}
		name := field.Names[0].Name
		if !readable(field.Type) {
			return nil, fmt.Errorf("Windmill cannot read the type of main's parameter %s; use a name, a slice of one, any or map[string]any", name)
		}
		var spelt strings.Builder
		if err := printer.Fprint(&spelt, files, field.Type); err != nil {
			return nil, fmt.Errorf("printing the type of %s: %w", name, err)
		}
		parameters = append(parameters, parameter{name: name, goType: spelt.String()})
	}
	return parameters, nil
}

// readable: Windmill's parser keeps names and slices, turns every map into
// map[string]interface{}, and everything else into interface{}.
func readable(expr ast.Expr) bool {
	switch t := expr.(type) {
	case *ast.Ident:
		return true
	case *ast.ArrayType:
		return t.Len == nil && readable(t.Elt)
	case *ast.InterfaceType:
		return len(t.Methods.List) == 0
	case *ast.MapType:
		key, isName := t.Key.(*ast.Ident)
		return isName && key.Name == "string" && isAny(t.Value)
	}
	return false
}

func isAny(expr ast.Expr) bool {
	switch t := expr.(type) {
	case *ast.Ident:
		return t.Name == "any"
	case *ast.InterfaceType:
		return len(t.Methods.List) == 0
	}
	return false
}

// runnerSource is the file that is put beside the script: arguments by name in,
// main's result out.
func (s *script) runnerSource() string {
	var fields, arguments strings.Builder
	for _, p := range s.parameters {
		exported := strings.ToUpper(p.name[:1]) + p.name[1:]
		fmt.Fprintf(&fields, "\t%s %s `json:%q`\n", exported, p.goType, p.name)
		fmt.Fprintf(&arguments, "\t\targuments.%s,\n", exported)
	}
	return "package inner\n\n// Req holds main's arguments.\ntype Req struct {\n" + fields.String() +
		"}\n\n// Run calls main.\nfunc Run(arguments Req) (any, error) {\n\treturn main(\n" + arguments.String() + "\t)\n}\n"
}

// mainSource reads args.json and writes result.json in the working directory.
// What goes wrong is printed, and the exit status is 1.
const mainSource = `package main

import (
	"encoding/json"
	"fmt"
	"os"

	"mymod/inner"
)

func main() {
	if err := run(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run() error {
	given, err := os.ReadFile("args.json")
	if err != nil {
		return err
	}
	var arguments inner.Req
	if err := json.Unmarshal(given, &arguments); err != nil {
		return err
	}
	result, err := inner.Run(arguments)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return os.WriteFile("result.json", encoded, 0o600)
}
`

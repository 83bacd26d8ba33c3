// Package config reads a service's settings from its environment variables
// into one documented struct, strictly: a variable of the service's prefix that
// the struct does not know is an error, and so is a missing or contradictory
// setting. It holds no settings of its own beyond the ones all services share.
//
// Secrets are named by a variable that ends in _FILE and holds a path; the
// struct field (tag `env:"X_FILE,file"`) then holds the file's content without
// its trailing line break.
package config

import (
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"

	"github.com/caarlos0/env/v11"
)

// Validator is implemented by a settings struct that has rules between fields.
// Its error names the settings by their variables.
type Validator interface {
	Validate(prefix string) error
}

// SettingError is the trouble that one setting's value made later than at its
// reading: an address that is taken, for example. It names the variable without
// the service's prefix, which only the process's shell knows.
type SettingError struct {
	Setting string
	Err     error
}

func (e *SettingError) Error() string { return e.Setting + ": " + e.Err.Error() }

// Unwrap returns the trouble.
func (e *SettingError) Unwrap() error { return e.Err }

// Load fills settings (a pointer to a struct with env tags) from the variables
// in environ that begin with prefix, for example "MUNIMENT_LEDGER_". Variables
// with the prefix that the struct does not name are refused unless allowed
// accepts them (nil accepts none). The error is one line and names the variable.
func Load(prefix string, environ []string, settings any, allowed func(name string) bool) error {
	opts := env.Options{
		Prefix:      prefix,
		Environment: withoutEmpty(environ),
	}
	known, err := env.GetFieldParamsWithOptions(settings, opts)
	if err != nil {
		return fmt.Errorf("reading the settings' description: %w", err)
	}
	if err := refuseUnknown(prefix, opts.Environment, known, allowed); err != nil {
		return err
	}
	if err := env.ParseWithOptions(settings, opts); err != nil {
		return describe(prefix, settings, err)
	}
	trimSecrets(settings)
	if v, ok := settings.(Validator); ok {
		return v.Validate(prefix)
	}
	return nil
}

// withoutEmpty turns KEY=VALUE lines into a map. A variable that is set to
// nothing counts as not set: shells and compose files cannot unset.
func withoutEmpty(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok && value != "" {
			m[name] = value
		}
	}
	return m
}

func refuseUnknown(prefix string, environ map[string]string, known []env.FieldParams, allowed func(string) bool) error {
	names := make(map[string]bool, len(known))
	for _, p := range known {
		names[p.Key] = true
	}
	var unknown []string
	for name := range environ {
		if strings.HasPrefix(name, prefix) && !names[name] && (allowed == nil || !allowed(name)) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	sort.Strings(unknown)
	return fmt.Errorf("%s is not a setting of this service; remove it or correct its name", strings.Join(unknown, ", "))
}

// describe keeps the library's error to one line that names the variable.
func describe(prefix string, settings any, err error) error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return err
	}
	lines := make([]string, 0, len(all.Errors))
	for _, e := range all.Errors {
		var notSet env.VarIsNotSetError
		var empty env.EmptyVarError
		var parse env.ParseError
		var load env.LoadFileContentError
		switch {
		case errors.As(e, &notSet):
			lines = append(lines, notSet.Key+" is required and not set")
		case errors.As(e, &empty):
			lines = append(lines, empty.Key+" is required and empty")
		case errors.As(e, &load):
			lines = append(lines, fmt.Sprintf("%s names a file that cannot be read: %v", load.Key, load.Err))
		case errors.As(e, &parse):
			lines = append(lines, fmt.Sprintf("%s%s: %v", prefix, variable(reflect.TypeOf(settings), parse.Name), parse.Err))
		default:
			lines = append(lines, e.Error())
		}
	}
	return errors.New(strings.Join(lines, "; "))
}

// variable is the name, without its prefix, of the variable that fills a field:
// the library names the field alone.
func variable(t reflect.Type, field string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return ""
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
		if f.Name == field && name != "" {
			return name
		}
		if nested := variable(f.Type, field); nested != "" {
			return nested
		}
	}
	return ""
}

package windmill

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// The types of this file are flow.yaml, no more of it than the stand-in can do:
// decoding refuses every other key.

type flowFile struct {
	Summary     string     `yaml:"summary"`
	Description string     `yaml:"description"`
	Value       flowValue  `yaml:"value"`
	Schema      flowSchema `yaml:"schema"`
}

type flowValue struct {
	Modules       []*module `yaml:"modules"`
	FailureModule *module   `yaml:"failure_module"`
}

// flowSchema is read for the names of the inputs.
type flowSchema struct {
	Schema     string         `yaml:"$schema"`
	Type       string         `yaml:"type"`
	Order      []string       `yaml:"order"`
	Properties map[string]any `yaml:"properties"`
	Required   []string       `yaml:"required"`
}

type module struct {
	ID      string      `yaml:"id"`
	Summary string      `yaml:"summary"`
	Value   moduleValue `yaml:"value"`
	Retry   retry       `yaml:"retry"`

	// Understood when the flow is loaded.
	inputs                map[string]transform
	iterator, parallelism transform
	executable            string
}

type moduleValue struct {
	Type string `yaml:"type"`

	// type script
	Path            string                    `yaml:"path"`
	InputTransforms map[string]inputTransform `yaml:"input_transforms"`

	// type forloopflow
	Iterator     *inputTransform `yaml:"iterator"`
	Parallel     bool            `yaml:"parallel"`
	Parallelism  *inputTransform `yaml:"parallelism"`
	SkipFailures bool            `yaml:"skip_failures"`
	Modules      []*module       `yaml:"modules"`
}

// retry is how often and how far apart a failed step runs again: the constant
// tries first, then the exponential ones, of which the n-th try of all waits
// multiplier × seconds^n.
type retry struct {
	Constant struct {
		Attempts int `yaml:"attempts"`
		Seconds  int `yaml:"seconds"`
	} `yaml:"constant"`
	Exponential struct {
		Attempts   int `yaml:"attempts"`
		Multiplier int `yaml:"multiplier"`
		Seconds    int `yaml:"seconds"`
	} `yaml:"exponential"`
}

// longestWait bounds what an exponent may ask for.
const longestWait = time.Hour

// wait is the pause before the n-th retry (from 1), or false when there is none
// left.
func (r retry) wait(n int) (time.Duration, bool) {
	if n <= r.Constant.Attempts {
		return time.Duration(r.Constant.Seconds) * time.Second, true
	}
	if n > r.Constant.Attempts+r.Exponential.Attempts {
		return 0, false
	}
	pause := time.Duration(r.Exponential.Multiplier) * time.Second
	for range n {
		if pause >= longestWait {
			return longestWait, true
		}
		pause *= time.Duration(r.Exponential.Seconds)
	}
	return min(pause, longestWait), true
}

var moduleID = regexp.MustCompile(`^` + identifier + `$`)

// readFlow reads the flow at path below root and checks everything that can be
// checked without running it. build makes a script's executable.
func readFlow(root, path string, build func(path string) (*script, string, error)) (*flowFile, error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)+".flow", "flow.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading the flow: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	var flow flowFile
	if err := decoder.Decode(&flow); err != nil {
		return nil, fmt.Errorf("reading flow.yaml: %w", err)
	}
	if len(flow.Value.Modules) == 0 {
		return nil, errors.New("the flow has no modules")
	}
	c := &checker{inputs: flow.Schema.Properties, ids: map[string]bool{}, build: build}
	if err := c.modules(flow.Value.Modules, map[string]bool{}, false); err != nil {
		return nil, err
	}
	if failure := flow.Value.FailureModule; failure != nil {
		if failure.ID != "failure" || failure.Value.Type != "script" {
			return nil, fmt.Errorf("the failure module has id %q and type %q; want %q and %q", failure.ID, failure.Value.Type, "failure", "script")
		}
		if err := c.modules([]*module{failure}, map[string]bool{}, false); err != nil {
			return nil, err
		}
	}
	return &flow, nil
}

// checker understands the modules of one flow.
type checker struct {
	inputs map[string]any
	ids    map[string]bool
	build  func(path string) (*script, string, error)
}

// modules checks a sequence of modules; results are the steps whose results it
// may use, looping says whether there is an iteration.
func (c *checker) modules(modules []*module, results map[string]bool, looping bool) error {
	results = maps.Clone(results)
	for _, m := range modules {
		if !moduleID.MatchString(m.ID) || c.ids[m.ID] {
			return fmt.Errorf("module id %q is empty, no identifier or there twice", m.ID)
		}
		c.ids[m.ID] = true
		if err := c.module(m, results, looping); err != nil {
			return fmt.Errorf("module %s: %w", m.ID, err)
		}
		results[m.ID] = true
	}
	return nil
}

func (c *checker) module(m *module, results map[string]bool, looping bool) error {
	v := m.Value
	switch v.Type {
	case "script":
		if v.Iterator != nil || v.Parallelism != nil || v.Parallel || v.SkipFailures || v.Modules != nil {
			return errors.New("a script module has keys of a loop")
		}
		return c.script(m, results, looping)
	case "forloopflow":
		if v.Path != "" || v.InputTransforms != nil {
			return errors.New("a loop has keys of a script module")
		}
		if looping {
			return errors.New("the stand-in knows no loop inside a loop")
		}
		return c.loop(m, results)
	}
	return fmt.Errorf("the stand-in knows the types script and forloopflow, not %q", v.Type)
}

func (c *checker) script(m *module, results map[string]bool, looping bool) error {
	s, executable, err := c.build(m.Value.Path)
	if err != nil {
		return fmt.Errorf("script %s: %w", m.Value.Path, err)
	}
	m.executable = executable
	m.inputs = map[string]transform{}
	for _, p := range s.parameters {
		input, given := m.Value.InputTransforms[p.name]
		if !given {
			return fmt.Errorf("parameter %s of %s gets no input", p.name, s.path)
		}
		if m.inputs[p.name], err = c.input(input, results, looping); err != nil {
			return fmt.Errorf("input %s: %w", p.name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Value.InputTransforms)) {
		if _, known := m.inputs[name]; !known {
			return fmt.Errorf("input %s: %s has no such parameter", name, s.path)
		}
	}
	return nil
}

func (c *checker) loop(m *module, results map[string]bool) error {
	v := m.Value
	switch {
	case v.Iterator == nil:
		return errors.New("the loop has no iterator")
	case !v.Parallel:
		return errors.New("the stand-in knows parallel loops only")
	case v.SkipFailures:
		return errors.New("the stand-in knows no skip_failures")
	case len(v.Modules) == 0:
		return errors.New("the loop has no modules")
	case m.Retry != retry{}:
		return errors.New("the stand-in retries scripts, not loops")
	}
	var err error
	if m.iterator, err = c.input(*v.Iterator, results, false); err != nil {
		return fmt.Errorf("iterator: %w", err)
	}
	if v.Parallelism != nil {
		if m.parallelism, err = c.input(*v.Parallelism, results, false); err != nil {
			return fmt.Errorf("parallelism: %w", err)
		}
	}
	return c.modules(v.Modules, results, true)
}

func (c *checker) input(given inputTransform, results map[string]bool, looping bool) (transform, error) {
	t, err := given.parse()
	if err != nil {
		return transform{}, err
	}
	switch t.from {
	case fromInput:
		if _, known := c.inputs[t.path[0]]; !known {
			return transform{}, fmt.Errorf("%s: the flow's schema has no input %s", given.Expr, t.path[0])
		}
	case fromIteration:
		if !looping {
			return transform{}, fmt.Errorf("%s: there is no loop around it", given.Expr)
		}
	case fromResult:
		if !results[t.step] {
			return transform{}, fmt.Errorf("%s: no step %s comes before it", given.Expr, t.step)
		}
	case fromStatic, fromVariable:
	}
	return t, nil
}

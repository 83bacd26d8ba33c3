package windmill

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// goodFlow is the smallest flow with everything in it; tests break it.
const goodFlow = `summary: s
value:
  modules:
    - id: plan
      value:
        type: script
        path: f/x/plan/main
        input_transforms:
          pages: {type: javascript, expr: flow_input.pages}
          secret: {type: static, value: $var:f/x/secret}
    - id: loop
      value:
        type: forloopflow
        iterator: {type: javascript, expr: results.plan.hosts}
        parallel: true
        parallelism: {type: javascript, expr: flow_input.width}
        skip_failures: false
        modules:
          - id: work
            value:
              type: script
              path: f/x/work/main
              input_transforms:
                host: {type: javascript, expr: flow_input.iter.value.host}
                all: {type: javascript, expr: results.plan.hosts}
      summary: loop
  failure_module:
    id: failure
    value:
      type: script
      path: f/x/fail/main
      input_transforms:
        pages: {type: javascript, expr: flow_input.pages}
schema:
  type: object
  properties: {pages: {type: array}, width: {type: integer}}
`

func check(t *testing.T, text string) error {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "f", "x", "level.flow"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "f", "x", "level.flow", "flow.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	scripts := map[string]*script{
		"f/x/plan/main": {path: "f/x/plan/main", parameters: []parameter{{"pages", "[]string"}, {"secret", "string"}}},
		"f/x/work/main": {path: "f/x/work/main", parameters: []parameter{{"host", "string"}, {"all", "[]string"}}},
		"f/x/fail/main": {path: "f/x/fail/main", parameters: []parameter{{"pages", "[]string"}}},
	}
	_, err := readFlow(root, "f/x/level", func(path string) (*script, string, error) {
		s, known := scripts[path]
		if !known {
			return nil, "", os.ErrNotExist
		}
		return s, "/bin/true", nil
	})
	return err
}

func TestBrokenFlowsAreRefused(t *testing.T) {
	t.Parallel()
	if err := check(t, goodFlow); err != nil {
		t.Fatalf("the good flow: %v", err)
	}
	if err := check(t, "summary: s\nvalue:\n  modules: []\n"); err == nil || !strings.Contains(err.Error(), "no modules") {
		t.Errorf("a flow without modules: %v", err)
	}
	for name, tc := range map[string]struct{ old, new, says string }{
		"an operator":             {"expr: flow_input.pages}", "expr: 'flow_input.pages || []'}", "is not of the forms"},
		"a call":                  {"expr: results.plan.hosts}", "expr: results.plan.hosts.map(String)}", "is not of the forms"},
		"an index":                {"expr: flow_input.iter.value.host}", "expr: 'flow_input.iter.value[0]'}", "is not of the forms"},
		"the iteration's number":  {"expr: flow_input.iter.value.host}", "expr: flow_input.iter.index}", "is not of the forms"},
		"the whole input":         {"expr: flow_input.pages}", "expr: flow_input}", "is not of the forms"},
		"no expression":           {"expr: flow_input.pages}", "expr: ''}", "is not of the forms"},
		"another kind of input":   {"type: javascript, expr: flow_input.pages", "type: ai, expr: flow_input.pages", `type is "ai"`},
		"both value and expr":     {"value: $var:f/x/secret", "value: 1, expr: flow_input.pages", "no expr"},
		"a resource":              {"$var:f/x/secret", "$res:f/x/secret", "resource"},
		"an unknown input":        {"expr: flow_input.width", "expr: flow_input.breadth", "no input breadth"},
		"an unknown step":         {"expr: results.plan.hosts}\n        parallel", "expr: results.plans.hosts}\n        parallel", "no step plans"},
		"a step that comes later": {"expr: flow_input.pages}\n          secret", "expr: results.loop}\n          secret", "no step loop"},
		"iteration, no loop":      {"expr: flow_input.pages}\n          secret", "expr: flow_input.iter.value}\n          secret", "no loop around it"},
		"parameter without input": {"                all: {type: javascript, expr: results.plan.hosts}\n", "", "parameter all of f/x/work/main gets no input"},
		"input without parameter": {"secret: {", "secrets: {type: static}\n          secret: {", "no such parameter"},
		"no such script":          {"path: f/x/work/main", "path: f/x/werk/main", "f/x/werk/main"},
		"a key we do not know":    {"      summary: loop", "      stop_after_if: {expr: 'false'}", "stop_after_if"},
		"a kind we do not know":   {"type: forloopflow", "type: branchall", "branchall"},
		"an inline script":        {"type: script\n        path: f/x/plan/main", "type: rawscript", "rawscript"},
		"a loop in turns":         {"parallel: true", "parallel: false", "parallel loops only"},
		"skipped failures":        {"skip_failures: false", "skip_failures: true", "skip_failures"},
		"an id twice":             {"id: loop", "id: plan", "there twice"},
		"an id with a dash":       {"id: work", "id: wo-rk", "no identifier"},
		"a failure module's id":   {"id: failure", "id: fail", "failure module"},
		"a retried loop":          {"      summary: loop", "      retry: {constant: {attempts: 1, seconds: 1}}", "retries scripts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := strings.Replace(goodFlow, tc.old, tc.new, 1)
			if broken == goodFlow {
				t.Fatal("the case changes nothing")
			}
			if err := check(t, broken); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q in it", err, tc.says)
			}
		})
	}
}

func TestSignatureRefusesWhatWindmillMisreads(t *testing.T) {
	t.Parallel()
	const head = "package inner\n"
	for name, tc := range map[string]struct{ source, says string }{
		"grouped names":     {head + "func main(a, b string) (int, error) { return 0, nil }", "a type each"},
		"a pointer":         {head + "func main(a *string) (int, error) { return 0, nil }", "cannot read the type"},
		"a qualified type":  {head + "import \"time\"\nfunc main(a time.Time) (int, error) { return 0, nil }", "cannot read the type"},
		"a typed map":       {head + "func main(a map[string]bool) (int, error) { return 0, nil }", "cannot read the type"},
		"one result":        {head + "func main() error { return nil }", "a result and an error"},
		"no main":           {head + "func Main() {}", "no main function"},
		"the wrong package": {"package main\nfunc main() {}", "wants inner"},
		"no Go":             {"package inner; func", "parsing the script"},
	} {
		if _, err := signature("f/x/y", []byte(tc.source)); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q in it", name, err, tc.says)
		}
	}
	got, err := signature("f/x/y", []byte(head+"func main(a string, b []item, c [][]interface{}, d map[string]interface{}) (int, error) { return 0, nil }"))
	if err != nil || len(got) != 4 || got[2] != (parameter{"c", "[][]interface{}"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestRetryWaits(t *testing.T) {
	t.Parallel()
	var r retry
	r.Constant.Attempts, r.Constant.Seconds = 1, 5
	r.Exponential.Attempts, r.Exponential.Multiplier, r.Exponential.Seconds = 3, 2, 3
	var waits []time.Duration
	for n := 1; ; n++ {
		wait, again := r.wait(n)
		if !again {
			break
		}
		waits = append(waits, wait)
	}
	// 2 × 3^n, where n counts the constant try too.
	if len(waits) != 4 || waits[0] != 5*time.Second || waits[1] != 18*time.Second || waits[3] != 162*time.Second {
		t.Errorf("waits %v", waits)
	}
	r.Exponential.Attempts = 1000
	if wait, again := r.wait(900); !again || wait != longestWait {
		t.Errorf("the 900th retry waits %s", wait)
	}
	if _, again := (retry{}).wait(1); again {
		t.Error("a step without retry is retried")
	}
}

func TestWalkReadsAsJavaScriptDoes(t *testing.T) {
	t.Parallel()
	value := map[string]any{"a": map[string]any{"b": nil}}
	if got, err := walk(value, "results.x", []string{"a", "missing"}); got != nil || err != nil {
		t.Errorf("a missing member is %v, %v", got, err)
	}
	if _, err := walk(value, "results.x", []string{"a", "b", "c"}); err == nil || !strings.Contains(err.Error(), "results.x.a.b has no member c") {
		t.Errorf("a member of null: %v", err)
	}
}

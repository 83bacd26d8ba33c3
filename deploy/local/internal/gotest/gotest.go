// Package gotest runs `go test -json` and shows what a reader wants of it: one
// line a package, the output of what failed, and closing lines that say how
// many tests ran and which were skipped, with the reason.
package gotest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// event is one line of `go test -json`; see 'go doc test2json'.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// report collects what the closing lines say.
type report struct {
	out             io.Writer
	output          map[string][]string // by package and test, dropped when it passed
	packages, tests int
	failed          []string
	skipped         []string
}

// Run runs cmd, which must be a `go test -json`, and reports on out. The error
// says what failed.
func Run(cmd *exec.Cmd, out io.Writer, now func() time.Time) error {
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("reading the tests' output: %w", err)
	}
	begun := now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting go test: %w", err)
	}
	r := &report{out: out, output: map[string][]string{}}
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var e event
		if json.Unmarshal(scanner.Bytes(), &e) != nil {
			fmt.Fprintln(out, scanner.Text())
			continue
		}
		r.take(e)
	}
	err = cmd.Wait()
	r.close(now().Sub(begun))
	switch {
	case len(r.failed) > 0:
		return fmt.Errorf("%d tests failed", len(r.failed))
	case err != nil:
		return fmt.Errorf("running the tests: %w", err)
	}
	return scanner.Err()
}

func (r *report) take(e event) {
	name := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		r.output[name] = append(r.output[name], e.Output)
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "build-fail":
		r.failed = append(r.failed, e.ImportPath+" (does not build)")
	case "pass", "skip", "fail":
		r.end(e, name)
	}
}

func (r *report) end(e event, name string) {
	output := r.output[name]
	delete(r.output, name)
	if e.Test == "" {
		r.endPackage(e, output)
		return
	}
	r.tests++
	switch e.Action {
	case "skip":
		r.skipped = append(r.skipped, name+": "+reason(output))
	case "fail":
		r.failed = append(r.failed, name)
		fmt.Fprint(r.out, strings.Join(output, ""))
	}
}

func (r *report) endPackage(e event, output []string) {
	if e.Action == "skip" { // no test files
		return
	}
	r.packages++
	word := "ok  "
	if e.Action == "fail" {
		word = "FAIL"
		fmt.Fprint(r.out, strings.Join(output, ""))
		if e.FailedBuild == "" && !slices.ContainsFunc(r.failed, func(f string) bool { return strings.HasPrefix(f, e.Package+" ") }) {
			r.failed = append(r.failed, e.Package+" (outside of a test)")
		}
	}
	fmt.Fprintf(r.out, "%s  %-72s %6.1fs\n", word, strings.TrimPrefix(e.Package, "github.com/muniment/muniment/"), e.Elapsed)
}

// reason is what a skipped test said.
func reason(output []string) string {
	for _, line := range output {
		text := strings.TrimSpace(line)
		if text != "" && !strings.HasPrefix(text, "===") && !strings.HasPrefix(text, "---") {
			return text
		}
	}
	return "no reason given"
}

func (r *report) close(took time.Duration) {
	fmt.Fprintln(r.out)
	for _, s := range r.skipped {
		fmt.Fprintln(r.out, "skipped:", s)
	}
	for _, f := range r.failed {
		fmt.Fprintln(r.out, "failed: ", f)
	}
	verdict := "PASS"
	if len(r.failed) > 0 {
		verdict = "FAIL"
	}
	fmt.Fprintf(r.out, "%s: %d tests in %d packages, %d failed, %d skipped, %s\n",
		verdict, r.tests, r.packages, len(r.failed), len(r.skipped), took.Round(time.Second))
}

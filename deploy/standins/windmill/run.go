package windmill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// outputBytes is how much of a script's output is kept.
const outputBytes = 64 << 10

// run is one job: one execution of a flow.
type run struct {
	workspace string
	id        string
	path      string
	flow      *flowFile
	variables Variables
	log       *slog.Logger
}

// execute runs the flow and, when a step has failed for good, the failure
// module. The job fails with the step's error whatever the failure module says.
func (r *run) execute(ctx context.Context, input map[string]any) (any, error) {
	result, err := r.sequence(ctx, r.flow.Value.Modules, scope{input: input, results: map[string]any{}})
	if err == nil || r.flow.Value.FailureModule == nil || ctx.Err() != nil {
		return result, err
	}
	r.log.Warn("the flow failed; running its failure module", "job", r.id, "error", err)
	if _, failure := r.step(ctx, r.flow.Value.FailureModule, scope{input: input, results: map[string]any{}}); failure != nil {
		return nil, errors.Join(err, fmt.Errorf("the failure module failed too: %w", failure))
	}
	return nil, err
}

// sequence runs modules in order; its result is the last one's.
func (r *run) sequence(ctx context.Context, modules []*module, s scope) (any, error) {
	var last any
	for _, m := range modules {
		result, err := r.module(ctx, m, s)
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", m.ID, err)
		}
		s.results[m.ID], last = result, result
	}
	return last, nil
}

func (r *run) module(ctx context.Context, m *module, s scope) (any, error) {
	if m.Value.Type == "forloopflow" {
		return r.loop(ctx, m, s)
	}
	return r.step(ctx, m, s)
}

// loop runs the modules for each item, so many at a time. All iterations run to
// their end; the loop fails if one did.
func (r *run) loop(ctx context.Context, m *module, s scope) (any, error) {
	value, err := m.iterator.value(ctx, s, r.variables)
	if err != nil {
		return nil, fmt.Errorf("iterator: %w", err)
	}
	items, ok := value.([]any)
	if !ok {
		return nil, errors.New("the iterator is not a list")
	}
	atOnce := len(items)
	if m.Value.Parallelism != nil {
		if atOnce, err = r.parallelism(ctx, m, s); err != nil {
			return nil, err
		}
	}
	results := make([]any, len(items))
	failures := make([]error, len(items))
	turn := make(chan struct{}, max(atOnce, 1))
	var running sync.WaitGroup
	for i, item := range items {
		turn <- struct{}{}
		running.Go(func() {
			defer func() { <-turn }()
			inner := scope{input: s.input, iteration: item, results: maps.Clone(s.results)}
			if results[i], failures[i] = r.sequence(ctx, m.Value.Modules, inner); failures[i] != nil {
				failures[i] = fmt.Errorf("iteration %d: %w", i, failures[i])
			}
		})
	}
	running.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, err
	}
	return results, nil
}

func (r *run) parallelism(ctx context.Context, m *module, s scope) (int, error) {
	value, err := m.parallelism.value(ctx, s, r.variables)
	if err != nil {
		return 0, fmt.Errorf("parallelism: %w", err)
	}
	number, err := json.Number(fmt.Sprint(value)).Int64()
	if err != nil || number < 1 || number > 1000 {
		return 0, fmt.Errorf("parallelism is %v; want 1 to 1000", value)
	}
	return int(number), nil
}

// step runs a script module, and again as its retry says.
func (r *run) step(ctx context.Context, m *module, s scope) (any, error) {
	for n := 1; ; n++ {
		result, err := r.once(ctx, m, s)
		if err == nil {
			return result, nil
		}
		pause, again := m.Retry.wait(n)
		if !again || ctx.Err() != nil {
			return nil, err
		}
		r.log.Warn("a step failed and is retried", "job", r.id, "step", m.ID, "in", pause, "error", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

func (r *run) once(ctx context.Context, m *module, s scope) (any, error) {
	arguments := map[string]any{}
	for name, t := range m.inputs {
		value, err := t.value(ctx, s, r.variables)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", name, err)
		}
		arguments[name] = value
	}
	started := time.Now() // for the log line alone
	result, err := r.process(ctx, m, arguments)
	r.log.Info("ran a step", "job", r.id, "step", m.ID, "took", time.Since(started).Round(time.Millisecond), "ok", err == nil)
	return result, err
}

// process runs the script's executable in a folder of its own, as Windmill's Go
// worker does: args.json in, result.json out, an environment of its own.
func (r *run) process(ctx context.Context, m *module, arguments map[string]any) (any, error) {
	folder, err := os.MkdirTemp("", "windmill-standin-")
	if err != nil {
		return nil, fmt.Errorf("making the job's folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // a leftover harms nothing
	encoded, err := json.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("encoding the arguments: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "args.json"), encoded, 0o600); err != nil {
		return nil, fmt.Errorf("writing the arguments: %w", err)
	}
	output := &tail{limit: outputBytes}
	cmd := exec.CommandContext(ctx, m.executable)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, output, output
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "TZ=UTC", "HOME=" + folder,
		"WM_WORKSPACE=" + r.workspace, "WM_JOB_ID=" + newUUID(), "WM_FLOW_PATH=" + r.path,
		"WM_FLOW_JOB_ID=" + r.id, "WM_ROOT_FLOW_JOB_ID=" + r.id, "WM_FLOW_STEP_ID=" + m.ID,
	}
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, output)
	}
	data, err := os.ReadFile(filepath.Join(folder, "result.json"))
	if err != nil {
		return nil, fmt.Errorf("reading the result: %w", err)
	}
	return decode(data)
}

// decode keeps numbers as they are spelt.
func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("reading the result: %w", err)
	}
	return value, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	limit int
	kept  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.limit; over > 0 {
		t.kept = append([]byte(nil), t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.kept)) }

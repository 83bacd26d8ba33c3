package windmill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Workspace is a workspace folder with every flow understood and every script
// built.
type Workspace struct {
	flows map[string]*flowFile
}

// Load reads every flow and script below root, which holds wmill.yaml, and
// builds the scripts with goCommand into cache, once for each content.
func Load(ctx context.Context, root, cache, goCommand string) (*Workspace, error) {
	if _, err := os.Stat(filepath.Join(root, "wmill.yaml")); err != nil {
		return nil, fmt.Errorf("%s is no workspace folder: %w", root, err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder for built scripts: %w", err)
	}
	cache, err := filepath.Abs(cache)
	if err != nil {
		return nil, fmt.Errorf("making the folder for built scripts: %w", err)
	}
	l := loader{ctx: ctx, root: root, builder: builder{goCommand: goCommand, folder: cache}, scripts: map[string]*script{}, built: map[string]string{}}
	w := &Workspace{flows: map[string]*flowFile{}}
	err = filepath.WalkDir(filepath.Join(root, "f"), func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return fmt.Errorf("naming %s: %w", file, err)
		}
		name := filepath.ToSlash(relative)
		if path, isScript := strings.CutSuffix(name, ".script.yaml"); isScript {
			if _, _, err := l.script(path); err != nil {
				return fmt.Errorf("script %s: %w", path, err)
			}
		}
		if path, isFlow := strings.CutSuffix(name, ".flow"); isFlow && entry.IsDir() {
			if w.flows[path], err = readFlow(root, path, l.script); err != nil {
				return fmt.Errorf("flow %s: %w", path, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("loading the workspace folder %s: %w", root, err)
	}
	if len(w.flows) == 0 {
		return nil, errors.New("the workspace folder holds no flow")
	}
	return w, nil
}

// loader reads and builds each script once.
type loader struct {
	ctx     context.Context //nolint:containedctx // lives as long as Load
	root    string
	builder builder
	scripts map[string]*script
	built   map[string]string
}

func (l loader) script(path string) (*script, string, error) {
	if s, known := l.scripts[path]; known {
		return s, l.built[path], nil
	}
	s, err := readScript(l.root, path)
	if err != nil {
		return nil, "", err
	}
	executable, err := l.builder.build(l.ctx, s)
	if err != nil {
		return nil, "", err
	}
	l.scripts[path], l.built[path] = s, executable
	return s, executable, nil
}

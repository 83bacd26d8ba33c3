package main

import (
	"os"
	"path/filepath"
	"strings"
)

// stackEnv looks a setting up in the environment and then in .local/stack.env
// of the checkout around the working directory, so that the command works
// beside a local stack without sourcing anything.
func stackEnv(getenv func(string) string) func(string) string {
	var file map[string]string
	return func(name string) string {
		if value := getenv(name); value != "" {
			return value
		}
		if file == nil {
			file = readStackEnv()
		}
		return file[name]
	}
}

// readStackEnv reads the launcher's file: NAME='value' lines, in which a quote
// is written as the shell wants it.
func readStackEnv() map[string]string {
	values := map[string]string{}
	dir, err := os.Getwd()
	if err != nil {
		return values
	}
	for ; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, ".local", "stack.env"))
		if err == nil {
			for line := range strings.Lines(string(content)) {
				name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
				if ok && !strings.HasPrefix(name, "#") {
					values[name] = strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(value, "'"), "'"), `'\''`, "'")
				}
			}
			return values
		}
		if dir == filepath.Dir(dir) {
			return values
		}
	}
}

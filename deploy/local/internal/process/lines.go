package process

import (
	"bytes"
	"io"
	"slices"
	"sync"
)

// keep is how many last lines are remembered for a message.
const keep = 12

// lines takes a process's output and writes it line by line: as it is into the
// process's own file, and prefixed with its name into everybody's.
type lines struct {
	prefix   string
	own, all io.Writer

	mu   sync.Mutex
	open []byte // a line that has not ended yet
	last []string
}

func newLines(name string, own, all io.Writer) *lines {
	return &lines{prefix: name + " | ", own: own, all: all}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, p...)
	for {
		line, rest, ended := bytes.Cut(l.open, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		l.line(string(line))
		l.open = rest
	}
}

// flush writes what was left without a line break.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) > 0 {
		l.line(string(l.open))
		l.open = nil
	}
}

// line must not fail: a full disk is no reason to block a child on its output.
func (l *lines) line(text string) {
	if len(l.last) == keep {
		l.last = l.last[1:]
	}
	l.last = append(l.last, text)
	_, _ = io.WriteString(l.own, l.prefix+text+"\n")
	_, _ = io.WriteString(l.all, l.prefix+text+"\n")
}

// tail returns the last lines, ready to stand behind a message.
func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.last
	if len(l.open) > 0 {
		text = append(slices.Clip(text), string(l.open))
	}
	return quoted(text)
}

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"github.com/muniment/muniment/pkg/fga"
)

// spillParts is into how many parts a set of tuples is split. One part of each
// side is in memory at a time: of ten million tuples, 40,000.
const spillParts = 256

// spill keeps tuples in temporary files, split by object.
type spill struct {
	dir   string
	files [spillParts]*os.File
	out   [spillParts]*bufio.Writer
}

func newSpill() (*spill, error) {
	dir, err := os.MkdirTemp("", "muniment-audit-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the comparison: %w", err)
	}
	s := &spill{dir: dir}
	for part := range s.files {
		file, err := os.CreateTemp(dir, "part-")
		if err != nil {
			return nil, errors.Join(fmt.Errorf("making a file for the comparison: %w", err), s.close())
		}
		s.files[part], s.out[part] = file, bufio.NewWriter(file)
	}
	return s, nil
}

func (s *spill) add(t fga.Tuple) error {
	line, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("spelling a tuple: %w", err)
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(t.Object))
	if _, err := s.out[hash.Sum32()%spillParts].Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the comparison's files: %w", err)
	}
	return nil
}

// each calls visit for the tuples of a part. Nothing is added afterwards.
func (s *spill) each(part int, visit func(fga.Tuple) error) error {
	if err := s.out[part].Flush(); err != nil {
		return fmt.Errorf("writing the comparison's files: %w", err)
	}
	if _, err := s.files[part].Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the comparison's files: %w", err)
	}
	for lines := json.NewDecoder(bufio.NewReader(s.files[part])); ; {
		var t fga.Tuple
		err := lines.Decode(&t)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the comparison's files: %w", err)
		}
		if err := visit(t); err != nil {
			return err
		}
	}
}

// close removes the files.
func (s *spill) close() error {
	for _, file := range s.files {
		if file != nil {
			_ = file.Close()
		}
	}
	return os.RemoveAll(s.dir)
}

// auditKey is a tuple with its condition, as text: the same grant with another
// end is another one.
type auditKey string

func auditKeyOf(t fga.Tuple) (auditKey, error) {
	text := t.User + " " + t.Relation + " " + t.Object
	if t.Condition == nil {
		return auditKey(text), nil
	}
	condition, err := json.Marshal(t.Condition) // sorts the keys of its context
	if err != nil {
		return "", fmt.Errorf("spelling a condition: %w", err)
	}
	return auditKey(text + " " + string(condition)), nil
}

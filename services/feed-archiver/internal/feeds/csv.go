package feeds

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
)

// table reads CSV row by row. Every row must have as many fields as the header:
// a text in place of data, or a row that is cut off, is otherwise a short row
// and nothing more.
type table struct {
	columns []string
	body    []byte
	reader  *csv.Reader
	row     int
}

// openTable reads the header, which must name the given columns.
func openTable(body []byte, needed ...string) (*table, error) {
	body = bytes.TrimPrefix(body, byteOrderMark)
	reader := csv.NewReader(bytes.NewReader(body))
	columns, err := reader.Read()
	if err != nil {
		return nil, refused("the body is not CSV")
	}
	for _, name := range needed {
		if !slices.Contains(columns, name) {
			return nil, refused("the first line is not this feed's header: no column %s", name)
		}
	}
	reader.ReuseRecord = true
	return &table{columns: columns, body: body, reader: reader}, nil
}

// column returns where a column stands.
func (t *table) column(name string) int {
	return slices.Index(t.columns, name)
}

// next returns a row's fields, which hold until the following call, and its
// line as received, without the line break. At the end the error is io.EOF.
func (t *table) next() (fields []string, line []byte, err error) {
	start := t.reader.InputOffset()
	fields, err = t.reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil, io.EOF
	}
	t.row++
	if errors.Is(err, csv.ErrFieldCount) {
		return nil, nil, refused("row %d has %d fields where the header has %d", t.row, len(fields), len(t.columns))
	}
	if err != nil {
		return nil, nil, refused("row %d is not CSV", t.row)
	}
	end := t.reader.InputOffset()
	return fields, bytes.Trim(t.body[start:end:end], "\r\n"), nil
}

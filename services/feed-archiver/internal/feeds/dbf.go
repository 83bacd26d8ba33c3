package feeds

import (
	"bytes"
	"encoding/binary"
)

// dbfText returns a text field of a dBASE table's first record, trimmed, or ""
// where the table or the field is not there. The layout: a header of 32 bytes
// with the lengths of header and record, then 32 bytes for each field with its
// name and width, then the records, each behind a byte that marks deletion.
func dbfText(table []byte, field string) string {
	const headerBytes, fieldBytes = 32, 32
	if len(table) < headerBytes {
		return ""
	}
	start := int(binary.LittleEndian.Uint16(table[8:]))
	offset := start + 1
	for at := headerBytes; at+fieldBytes <= min(start, len(table)); at += fieldBytes {
		descriptor := table[at : at+fieldBytes]
		name, _, _ := bytes.Cut(descriptor[:11], []byte{0})
		width := int(descriptor[16])
		if string(name) == field {
			if offset+width > len(table) {
				return ""
			}
			return string(bytes.Trim(table[offset:offset+width], " \x00"))
		}
		offset += width
	}
	return ""
}

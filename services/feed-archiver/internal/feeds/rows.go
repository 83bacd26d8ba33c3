package feeds

import (
	"fmt"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// rows splits an array of objects, one item for each. The function names the
// item; the body is filled in.
func rows(array []byte, name func(row []byte) (archive.Item, error)) ([]archive.Item, error) {
	var items []archive.Item
	for row := range elements(array) {
		if kindOf(row) != '{' {
			return nil, refused("element %d is not an object", len(items)+1)
		}
		item, err := name(row)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", len(items)+1, err)
		}
		item.Kind, item.Body = archive.JSON, row
		items = append(items, item)
	}
	return items, nil
}

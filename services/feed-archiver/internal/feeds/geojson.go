package feeds

import (
	"fmt"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// collection is a checked GeoJSON FeatureCollection.
type collection struct {
	root     []byte
	features []byte
}

// featureCollection checks the envelope. An answer that holds an error, a
// single feature or another document is refused; one with no features is not.
func featureCollection(body []byte) (collection, error) {
	root, err := document(body)
	if err != nil {
		return collection{}, err
	}
	if err := refuseError(root); err != nil {
		return collection{}, err
	}
	features := member(root, "features")
	switch {
	case text(member(root, "type")) != "FeatureCollection":
		return collection{}, refused("not a GeoJSON FeatureCollection")
	case kindOf(features) != '[':
		return collection{}, refused("a FeatureCollection without an array of features")
	}
	return collection{root: root, features: features}, nil
}

// refuseError recognises the error objects that servers send with status 200.
// The server's words are left out: they can repeat what was asked.
func refuseError(root []byte) error {
	problem := member(root, "error")
	switch kindOf(problem) {
	case 0, 'n':
		return nil
	case '{':
		if code := number(member(problem, "code")); code != 0 {
			return refused("an error object in place of data, code %d", code)
		}
	}
	return refused("an error object in place of data")
}

// items splits the collection, one item for each feature. The function is
// given a feature and its properties and names the item; the body is filled in.
func (c collection) items(name func(feature, properties []byte) (archive.Item, error)) ([]archive.Item, error) {
	var items []archive.Item
	for feature := range elements(c.features) {
		properties := member(feature, "properties")
		if text(member(feature, "type")) != "Feature" || kindOf(properties) != '{' {
			return nil, refused("element %d of features is not a feature with properties", len(items)+1)
		}
		item, err := name(feature, properties)
		if err != nil {
			return nil, fmt.Errorf("feature %d: %w", len(items)+1, err)
		}
		item.Kind, item.Body = archive.JSON, feature
		items = append(items, item)
	}
	return items, nil
}

// identified checks a product id, which must be there and be storable as text.
func identified(id, what string) (string, error) {
	if err := checkName(id); err != nil {
		return "", refused("%s %w", what, err)
	}
	return id, nil
}

package feeds

import (
	"bytes"
	"net/url"
	"strconv"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// arcgisPage is how many rows a page is asked to have: the limit that the
// services state.
const arcgisPage = 2000

// arcgisQuery is what every query of an ArcGIS layer asks for. Pages are only
// disjoint when they are ordered.
func arcgisQuery(endpoint Endpoint, service, layer, where, order string, pageSize int) (*url.URL, error) {
	u, err := endpoint.address(service, map[string]string{"layer": layer})
	if err != nil {
		return nil, err
	}
	return withDefaults(u, url.Values{
		"where":             {where},
		"outFields":         {"*"},
		"outSR":             {"4326"},
		"f":                 {"geojson"},
		"orderByFields":     {order},
		"resultOffset":      {"0"},
		"resultRecordCount": {strconv.Itoa(pageSize)},
	}), nil
}

// arcgisFeatures splits one page of a layer. A page that is shorter than was
// asked for is no end: only the server knows its own limit, and says so.
func arcgisFeatures(body []byte, name func(properties []byte) (archive.Item, error)) (Page, error) {
	layer, err := featureCollection(body)
	if err != nil {
		return Page{}, err
	}
	items, err := layer.items(func(_, properties []byte) (archive.Item, error) { return name(properties) })
	if err != nil {
		return Page{}, err
	}
	page := Page{Items: items}
	if transferLimitExceeded(layer) {
		page.Next = nextOffset(len(items))
	}
	return page, nil
}

// transferLimitExceeded finds the flag in either of its places.
func transferLimitExceeded(layer collection) bool {
	return bytes.Equal(member(layer.root, "exceededTransferLimit"), []byte("true")) ||
		bytes.Equal(member(layer.root, "properties", "exceededTransferLimit"), []byte("true"))
}

// nextOffset asks for what follows the rows that were received. A page without
// rows that says there are more is passed over by the size that was asked for.
func nextOffset(received int) Next {
	return func(asked *url.URL) (*url.URL, error) {
		query := asked.Query()
		step := received
		if step == 0 {
			step, _ = strconv.Atoi(query.Get("resultRecordCount"))
		}
		return advanced(asked, "resultOffset", step), nil
	}
}

// advanced adds to a numeric parameter of a URL.
func advanced(asked *url.URL, parameter string, step int) *url.URL {
	query := asked.Query()
	offset, _ := strconv.Atoi(query.Get(parameter))
	query.Set(parameter, strconv.Itoa(offset+step))
	next := *asked
	next.RawQuery = query.Encode()
	return &next
}

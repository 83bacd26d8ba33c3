package crawl

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLinksBytes bounds one page's links file; 50,000 links take about 10 MiB.
const maxLinksBytes = 32 << 20

// errLinks says nothing of what stands in the file: it may be anything.
var errLinks = errors.New("the links file is not JSON of the known form")

type link struct {
	Href string  `json:"href"`
	Rel  *string `json:"rel"`
}

// parseLinks reads a links file and returns the page's final URL and the links
// that may be followed, as they stand. It goes link by link, so that no more of a
// file is held than what is kept.
func parseLinks(data []byte) (pageURL, []string, error) {
	var final, asked string
	var hrefs []string
	d := json.NewDecoder(bytes.NewReader(data))
	err := eachOf(d, '{', func() error {
		key, err := d.Token()
		if err != nil {
			return err
		}
		switch key {
		case "finalUrl":
			return d.Decode(&final)
		case "url":
			return d.Decode(&asked)
		case "links":
			return eachOf(d, '[', func() error {
				var l link
				if err := d.Decode(&l); err != nil {
					return err
				}
				if l.Rel == nil || !nofollow(*l.Rel) {
					hrefs = append(hrefs, l.Href)
				}
				return nil
			})
		}
		var other json.RawMessage
		return d.Decode(&other)
	})
	if err != nil {
		return pageURL{}, nil, errLinks
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return pageURL{}, nil, errLinks
	}
	u, err := parseURL(cmp.Or(final, asked))
	if err != nil {
		return pageURL{}, nil, fmt.Errorf("the links file's final URL %w", err)
	}
	return u, hrefs, nil
}

// eachOf reads an object or an array, which begins with open; read reads a member
// each time, with its key. A null is one without members.
func eachOf(d *json.Decoder, open json.Delim, read func() error) error {
	switch token, err := d.Token(); {
	case err != nil:
		return err
	case token == nil:
		return nil
	case token != open:
		return errLinks
	}
	for d.More() {
		if err := read(); err != nil {
			return err
		}
	}
	_, err := d.Token() // the bracket that closes it
	return err
}

// nofollow reads rel as HTML does: tokens, in any case.
func nofollow(rel string) bool {
	for token := range strings.FieldsSeq(rel) {
		if strings.EqualFold(token, "nofollow") {
			return true
		}
	}
	return false
}

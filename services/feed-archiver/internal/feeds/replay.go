package feeds

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
	"strings"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

// Replay splits a recorded body as if it had just been read. What the caller
// does not state in p is taken from the file's name where that says it; a name
// that ends in .gz is unpacked first. The items of one page are all that one
// file can hold, so a body that leads on to another is no error here.
func (s *Source) Replay(file string, body []byte, p Params) ([]archive.Item, error) {
	if name, packed := strings.CutSuffix(file, ".gz"); packed {
		unpacked, err := unpack(body, s.MaxBytes)
		if err != nil {
			return nil, err
		}
		file, body = name, unpacked
	}
	if len(body) == 0 {
		return nil, refused("the body is empty")
	}
	if s.FromFile != nil {
		p = p.or(s.FromFile(file))
	}
	page, err := s.Split(body, p)
	return page.Items, err
}

func unpack(body []byte, limit int64) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, refused("the file is not gzip")
	}
	unpacked, err := io.ReadAll(io.LimitReader(reader, limit+1))
	switch {
	case err != nil:
		return nil, refused("the gzip stream is broken or cut off")
	case int64(len(unpacked)) > limit:
		return nil, refused("the body is larger than the limit")
	}
	return unpacked, nil
}

// or fills what p leaves open from others.
func (p Params) or(others Params) Params {
	p.Request = cmp.Or(p.Request, others.Request)
	p.Event = cmp.Or(p.Event, others.Event)
	p.Storm = cmp.Or(p.Storm, others.Storm)
	p.Version = cmp.Or(p.Version, others.Version)
	p.Source = cmp.Or(p.Source, others.Source)
	p.Code = cmp.Or(p.Code, others.Code)
	p.Member = cmp.Or(p.Member, others.Member)
	p.File = cmp.Or(p.File, others.File)
	p.IssuedAt = cmp.Or(p.IssuedAt, others.IssuedAt)
	return p
}

package feeds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/fetch"
)

type getter interface {
	// Get reads one URL; its error is a *fetch.Error.
	Get(ctx context.Context, r fetch.Request) (*fetch.Response, error)
}

// Reader reads requests of sources, each completely or not at all.
type Reader struct {
	client   getter
	settings *Settings
	now      func() time.Time
}

// NewReader makes a reader.
func NewReader(client *fetch.Client, settings *Settings, now func() time.Time) *Reader {
	return &Reader{client: client, settings: settings, now: now}
}

// Read reads one request with all its pages. Exactly one of the results is set.
// The validator is what the last stored read of this request came with, or nil.
func (r *Reader) Read(ctx context.Context, source *Source, p Params, last *archive.Validator) (*archive.Read, *archive.Failure) {
	began := r.now()
	ctx, cancel := context.WithTimeout(ctx, r.settings.ReadTimeout)
	defer cancel()
	read, err := r.read(ctx, source, p, last)
	if err != nil {
		return nil, failure(source, p, began, err)
	}
	read.Source, read.Request, read.FetchedAt = source.Name, p.Request, began
	read.RemovedFields = source.Removed
	return read, nil
}

func (r *Reader) read(ctx context.Context, source *Source, p Params, last *archive.Validator) (*archive.Read, error) {
	first, err := source.Address(r.settings, p)
	if err != nil {
		return nil, err
	}
	read := &archive.Read{HTTPStatus: http.StatusOK}
	pages := newPages()
	for next := first; next != nil; {
		if err := pages.begin(next, source.MaxPages); err != nil {
			return nil, err
		}
		response, err := r.client.Get(ctx, r.request(source, next, last))
		if err != nil {
			return nil, err
		}
		if pages.count == 1 {
			read.Headers = archive.Headers{Date: response.Date, Age: response.Age, LastModified: response.LastModified}
			read.Validator = validator(first, response)
		}
		if response.Status == http.StatusNotModified {
			return unchanged(read, last), nil
		}
		page, err := source.Split(response.Body, p)
		if err != nil {
			return nil, &fetch.Error{Status: response.Status, Reason: err.Error()}
		}
		if err := pages.end(page.Items, response.Status); err != nil {
			return nil, err
		}
		read.Bytes += int64(len(response.Body))
		read.Items = append(read.Items, page.Items...)
		if next, err = pages.following(page, next); err != nil {
			return nil, &fetch.Error{Status: response.Status, Reason: err.Error()}
		}
	}
	if pages.count > 1 {
		// A validator of the first page says nothing about the others.
		read.Validator = nil
	}
	return read, nil
}

// unchanged completes a read that was answered with 304. Only a first page is
// asked for conditionally: a validator belongs to its address. An answer without
// validators leaves the old ones.
func unchanged(read *archive.Read, last *archive.Validator) *archive.Read {
	read.HTTPStatus, read.NotModified = http.StatusNotModified, true
	if read.Validator == nil {
		read.Validator = last
	}
	return read
}

func (r *Reader) request(source *Source, u *url.URL, last *archive.Validator) fetch.Request {
	request := fetch.Request{
		URL:      u,
		Accept:   source.Accept,
		Hosts:    source.hosts(r.settings),
		MaxBytes: source.MaxBytes,
	}
	if last != nil && last.URLHash == urlHash(u) {
		request.ETag, request.LastModified = last.ETag, last.LastModified
	}
	if source.secret != nil {
		request.Secret = source.secret(r.settings)
	}
	return request
}

// validator returns what makes the next request of this address conditional.
func validator(u *url.URL, response *fetch.Response) *archive.Validator {
	if response.ETag == "" && response.LastModified == "" {
		return nil
	}
	return &archive.Validator{URLHash: urlHash(u), ETag: response.ETag, LastModified: response.LastModified}
}

func urlHash(u *url.URL) string {
	sum := sha256.Sum256([]byte(u.String()))
	return hex.EncodeToString(sum[:])
}

// failure keeps of an error what may be kept.
func failure(source *Source, p Params, began time.Time, err error) *archive.Failure {
	f := &archive.Failure{Source: source.Name, Request: p.Request, FetchedAt: began, Reason: err.Error()}
	if fetched, ok := errors.AsType[*fetch.Error](err); ok {
		f.HTTPStatus, f.Reason, f.RetryAfter = fetched.Status, fetched.Reason, fetched.RetryAfter
	}
	return f
}

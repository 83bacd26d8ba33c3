package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
)

// readBody reads a body to its very end. The HTTP package already compares the
// bytes received with a stated length; what is added here is the limit, the
// compression, and that nothing at all is not a body.
func readBody(response *http.Response, limit int64) ([]byte, error) {
	status := response.StatusCode
	if response.ContentLength > limit {
		return nil, failed(status, "the body has %d bytes, more than the limit of %d", response.ContentLength, limit)
	}
	body := io.Reader(response.Body)
	sent := &countingReader{from: body, limit: limit}
	switch coding := strings.ToLower(strings.TrimSpace(response.Header.Get("Content-Encoding"))); coding {
	case "", "identity":
		body = sent
	case "gzip", "x-gzip":
		unpacked, err := gzip.NewReader(sent)
		if err != nil {
			return nil, bodyError(status, err)
		}
		body = &countingReader{from: unpacked, limit: limit}
	default:
		return nil, failed(status, "the body is compressed in a way that was not asked for")
	}
	var buffer bytes.Buffer
	if response.ContentLength > 0 {
		buffer.Grow(int(response.ContentLength) + bytes.MinRead)
	}
	if _, err := buffer.ReadFrom(body); err != nil {
		return nil, bodyError(status, err)
	}
	if buffer.Len() == 0 {
		return nil, failed(status, "the body is empty")
	}
	return buffer.Bytes(), nil
}

var errTooLarge = errors.New("more bytes than the limit")

// countingReader fails at the first byte beyond its limit, so that an endless
// or a decompressing body costs no more memory than the limit.
type countingReader struct {
	from  io.Reader
	limit int64
	read  int64
}

// Read implements io.Reader.
func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.read += int64(n)
	if r.read > r.limit {
		return 0, errTooLarge
	}
	return n, err
}

// bodyError says in which way a body is not whole.
func bodyError(status int, err error) *Error {
	var timeout net.Error
	switch {
	case errors.Is(err, errTooLarge):
		return failed(status, "the body is larger than the limit")
	case errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout()):
		return failed(status, "the body did not arrive in time")
	case errors.Is(err, context.Canceled):
		return failed(status, "the read was given up because the archiver is stopping")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return failed(status, "the gzip stream is broken: %v", err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return failed(status, "the body is shorter than it should be")
	}
	return failed(status, "the body broke off or cannot be decompressed")
}

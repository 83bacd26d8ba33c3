// Package objstore reads from the S3 store where BrowserHive writes. It hands
// out sentinels instead of the client library's errors, keeps every call
// bounded, and never guesses or rewrites a key.
package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/rpcerr"
)

var (
	// ErrNotFound says that there is no such object (or, told by a store that does not let us
	// list, perhaps ErrForbidden instead).
	ErrNotFound = errors.New("object not found")
	// ErrForbidden says that the store refuses this key. Where listing is not allowed
	// that is also its answer for a missing key.
	ErrForbidden = errors.New("object store refuses the object")
	// ErrTooLarge says that the object is over the caller's limit.
	ErrTooLarge = errors.New("object is over the size limit")
	// ErrUnavailable says that the store does not answer, or not in time. It wraps
	// rpcerr.ErrUnavailable.
	ErrUnavailable = fmt.Errorf("object store is not available: %w", rpcerr.ErrUnavailable)
)

// Object is what the store says of one object.
type Object struct {
	// Size in bytes.
	Size int64
	// ETag without quotes.
	ETag string
	// VersionID is empty where the bucket keeps no versions.
	VersionID string
}

// Client reads objects. It is safe for concurrent use.
type Client struct {
	s3 *minio.Client
}

// New prepares a client; it makes no connection.
func New(settings config.Store) (*Client, error) {
	s3, err := NewS3(settings)
	if err != nil {
		return nil, err
	}
	return &Client{s3: s3}, nil
}

// NewS3 prepares the underlying client with our transport limits, for callers
// that write (the sink) or need more than reading.
func NewS3(settings config.Store) (*minio.Client, error) {
	u, err := url.Parse(settings.Endpoint)
	if err != nil || u.Host == "" {
		return nil, errors.New("parsing S3_ENDPOINT: not an absolute URL")
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		MaxIdleConns:          128,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		// A body must arrive as it is stored: no transparent decompression.
		DisableCompression: true,
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(settings.AccessKey, settings.SecretKey, ""),
		Secure:       u.Scheme == "https",
		Transport:    transport,
		Region:       settings.Region,
		BucketLookup: minio.BucketLookupPath,
		// The callers' own loops come again; ten silent tries here would only
		// hide a store that is down.
		MaxRetries: 2,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the object store client: %w", err)
	}
	return client, nil
}

// Stat asks for one object (HEAD).
func (c *Client) Stat(ctx context.Context, bucket, key string) (Object, error) {
	info, err := c.s3.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return Object{}, classify(fmt.Errorf("asking for the object: %w", err))
	}
	return Object{Size: info.Size, ETag: info.ETag, VersionID: info.VersionID}, nil
}

// Read returns an object's bytes, at most limit of them; a larger one is
// ErrTooLarge and costs no more than the limit.
func (c *Client) Read(ctx context.Context, bucket, key string, limit int64) ([]byte, error) {
	body, info, _, err := (&minio.Core{Client: c.s3}).GetObject(ctx, bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, classify(fmt.Errorf("reading the object: %w", err))
	}
	defer body.Close()
	if info.Size > limit {
		return nil, fmt.Errorf("%w of %d bytes", ErrTooLarge, limit)
	}
	// The size that was announced is no more than a guess at what comes.
	data := bytes.NewBuffer(make([]byte, 0, max(info.Size, 0)+bytes.MinRead))
	if _, err := data.ReadFrom(io.LimitReader(body, limit+1)); err != nil {
		return nil, classify(fmt.Errorf("reading the object: %w", err))
	}
	if int64(data.Len()) > limit {
		return nil, fmt.Errorf("%w of %d bytes", ErrTooLarge, limit)
	}
	return data.Bytes(), nil
}

// Ready says whether the bucket answers.
func (c *Client) Ready(ctx context.Context, bucket string) error {
	ok, err := c.s3.BucketExists(ctx, bucket)
	if err != nil {
		return classify(fmt.Errorf("asking for bucket %s: %w", bucket, err))
	}
	if !ok {
		return fmt.Errorf("%w: there is no bucket %s", ErrNotFound, bucket)
	}
	return nil
}

// classify puts our sentinel around the library's error.
func classify(err error) error {
	var resp minio.ErrorResponse
	if !errors.As(err, &resp) {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	switch resp.StatusCode {
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case http.StatusForbidden, http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	case http.StatusBadRequest, http.StatusMethodNotAllowed:
		// A delete marker answers 405 to a HEAD of its version, and a HEAD has
		// no body that could say more than 400.
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

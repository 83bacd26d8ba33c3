// Package presign makes GET-only URLs of objects, locally: it opens no
// connection, to the store or to anything else. Only the host header is signed,
// so that any plain client can use the URL.
package presign

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"
)

// minRemaining is the life of credentials under which nothing is signed with
// them any more: the URL would be over before it is used.
const minRemaining = 30 * time.Second

// ErrNoCredentials says that there are no credentials that live long enough. It passes
// when they are renewed.
var ErrNoCredentials = errors.New("no credentials that live long enough")

// Object names what a URL is for.
type Object struct {
	Bucket, Key string
	// VersionID is empty where the bucket keeps no versions.
	VersionID string
}

// URL is a signed URL and the time it is good for, as the signature says it.
type URL struct {
	Text                string
	IssuedAt, ExpiresAt time.Time
}

// source gives the credentials to sign with.
type source interface {
	Current() Credentials
}

// Presigner is safe for concurrent use.
type Presigner struct {
	settings Settings
	source   source
	now      func() time.Time
}

// New returns a presigner. now judges the credentials' remaining life; the
// signature's own time is the signing library's.
func New(settings Settings, source source, now func() time.Time) *Presigner {
	return &Presigner{settings: settings, source: source, now: now}
}

// Sign returns a URL for one object.
func (p *Presigner) Sign(o Object) (URL, error) {
	if !slices.Contains(p.settings.Buckets, o.Bucket) {
		return URL{}, fmt.Errorf("bucket %q is not one whose objects may be signed", o.Bucket)
	}
	creds := p.source.Current()
	lifetime, err := p.lifetime(creds)
	if err != nil {
		return URL{}, err
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, p.target(o), http.NoBody)
	if err != nil {
		return URL{}, fmt.Errorf("forming the URL: %w", err)
	}
	signed := signer.PreSignV4(*request, creds.AccessKey, creds.SecretKey, creds.SessionToken, p.settings.Region, int64(lifetime/time.Second))
	return readBack(signed.URL)
}

// lifetime is the configured one, or what the credentials still live.
func (p *Presigner) lifetime(creds Credentials) (time.Duration, error) {
	if creds.Expires.IsZero() {
		return p.settings.Lifetime, nil
	}
	// One second for the signature's time, which is cut to seconds.
	remaining := creds.Expires.Sub(p.now()).Truncate(time.Second) - time.Second
	if remaining < minRemaining {
		return 0, fmt.Errorf("%w: they end at %s", ErrNoCredentials, creds.Expires.Format(time.RFC3339))
	}
	return min(p.settings.Lifetime, remaining), nil
}

// target is the object's URL before it is signed, path style: the bucket stands
// in the path, so that one host name serves all.
func (p *Presigner) target(o Object) string {
	text := strings.TrimSuffix(p.settings.PublicEndpoint, "/") + "/" + o.Bucket + "/" + s3utils.EncodePath(o.Key)
	if o.VersionID != "" {
		text += "?versionId=" + url.QueryEscape(o.VersionID)
	}
	return text
}

// readBack takes the times from the signature itself, so that what is recorded
// is what the store will go by.
func readBack(u *url.URL) (URL, error) {
	query := u.Query()
	issued, err := time.Parse("20060102T150405Z", query.Get("X-Amz-Date"))
	if err != nil {
		return URL{}, fmt.Errorf("reading the signature's time: %w", err)
	}
	seconds, err := strconv.Atoi(query.Get("X-Amz-Expires"))
	if err != nil {
		return URL{}, fmt.Errorf("reading the signature's lifetime: %w", err)
	}
	if headers := query.Get("X-Amz-SignedHeaders"); headers != "host" {
		return URL{}, fmt.Errorf("the signature covers the headers %q and not the host alone", headers)
	}
	return URL{Text: u.String(), IssuedAt: issued, ExpiresAt: issued.Add(time.Duration(seconds) * time.Second)}, nil
}

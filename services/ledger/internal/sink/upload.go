package sink

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // S3's own ETag is made of MD5 sums; it is compared, not trusted
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	// partSize is one part of a multipart upload. An upload takes the memory of
	// two: one is stored while the next one comes. S3 wants at least 5 MiB.
	partSize = 8 << 20
	// abortTimeout bounds the clean-up after an upload that was given up.
	abortTimeout = 30 * time.Second
)

var (
	errEmpty    = errors.New("empty body")
	errTooLarge = errors.New("body over the limit")
	errChecksum = errors.New("the store holds other bytes than were sent")
	// errBroken is a body that ended before its end: its sender is gone.
	errBroken = errors.New("body broke off")
)

// parts lends the buffers of uploads.
var parts = sync.Pool{New: func() any { b := make([]byte, partSize); return &b }}

// store writes objects, part by part; minio.Core implements it.
type store interface {
	PutObject(ctx context.Context, bucket, object string, data io.Reader, size int64, md5Base64, sha256Hex string, opts minio.PutObjectOptions) (minio.UploadInfo, error)
	NewMultipartUpload(ctx context.Context, bucket, object string, opts minio.PutObjectOptions) (string, error)
	PutObjectPart(ctx context.Context, bucket, object, uploadID string, partID int, data io.Reader, size int64, opts minio.PutObjectPartOptions) (minio.ObjectPart, error)
	CompleteMultipartUpload(ctx context.Context, bucket, object, uploadID string, parts []minio.CompletePart, opts minio.PutObjectOptions) (minio.UploadInfo, error)
	AbortMultipartUpload(ctx context.Context, bucket, object, uploadID string) error
}

// upload streams body into the store. What is smaller than a part is one put;
// a larger body goes part by part, and nothing is visible, or left behind,
// unless all of it came. Each part is sent with its own SHA-256, which the store
// verifies, and the object's ETag is compared with the one we computed.
//
// commit is called once, after the last byte came and before the object becomes
// visible; its error gives the upload up.
func upload(ctx context.Context, s store, bucket, key, contentType string, body io.Reader, limit int64, commit func() error) error {
	buffer := parts.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer parts.Put(buffer)

	n, err := fill(body, *buffer)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case n == 0:
		return errEmpty
	case int64(n) > limit:
		return errTooLarge
	}
	opts := minio.PutObjectOptions{ContentType: contentType}
	if errors.Is(err, io.EOF) {
		return putWhole(ctx, s, bucket, key, (*buffer)[:n], opts, commit)
	}
	next := parts.Get().(*[]byte) //nolint:forcetypeassert // as above
	defer parts.Put(next)
	return putParts(ctx, s, bucket, key, *buffer, n, *next, body, limit, opts, commit)
}

func putWhole(ctx context.Context, s store, bucket, key string, data []byte, opts minio.PutObjectOptions, commit func() error) error {
	if err := commit(); err != nil {
		return err
	}
	sums := sum(data)
	info, err := s.PutObject(ctx, bucket, key, bytes.NewReader(data), int64(len(data)), sums.md5Base64, sums.sha256Hex, opts)
	if err != nil {
		return fmt.Errorf("storing the object: %w", err)
	}
	if info.ETag != hex.EncodeToString(sums.md5) {
		return errChecksum
	}
	return nil
}

// putParts stores the first part, which is the n bytes of current, and then the
// rest; next is as large as current.
func putParts(ctx context.Context, s store, bucket, key string, current []byte, n int, next []byte, body io.Reader, limit int64, opts minio.PutObjectOptions, commit func() error) (err error) {
	id, err := s.NewMultipartUpload(ctx, bucket, key, opts)
	if err != nil {
		return fmt.Errorf("beginning the upload: %w", err)
	}
	defer func() {
		if err == nil {
			return
		}
		// The caller may be gone; its parts must go all the same.
		abortCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		if abortErr := s.AbortMultipartUpload(abortCtx, bucket, key, id); abortErr != nil {
			err = errors.Join(err, fmt.Errorf("removing the parts of an upload that was given up: %w", abortErr))
		}
	}()
	var done []minio.CompletePart
	var etags []byte
	var total int64
	for more := true; n > 0; {
		total += int64(n)
		if total > limit {
			return errTooLarge
		}
		storing := storePart(ctx, s, bucket, key, id, len(done)+1, current[:n])
		var readErr error
		n = 0
		if more {
			n, readErr = fill(body, next)
			more = readErr == nil
		}
		stored := <-storing
		switch {
		case readErr != nil && !errors.Is(readErr, io.EOF):
			return readErr
		case stored.err != nil:
			return fmt.Errorf("storing part %d: %w", len(done)+1, stored.err)
		}
		done = append(done, minio.CompletePart{PartNumber: stored.part.PartNumber, ETag: stored.part.ETag})
		etags = append(etags, stored.md5...)
		current, next = next, current
	}
	if err := commit(); err != nil {
		return err
	}
	info, err := s.CompleteMultipartUpload(ctx, bucket, key, id, done, opts)
	if err != nil {
		return fmt.Errorf("completing the upload: %w", err)
	}
	whole := md5.Sum(etags) //nolint:gosec // as above
	if info.ETag != fmt.Sprintf("%x-%d", whole, len(done)) {
		return errChecksum
	}
	return nil
}

// storedPart is what became of one part.
type storedPart struct {
	part minio.ObjectPart
	md5  []byte
	err  error
}

// storePart stores one part while its caller reads the next one; the caller waits
// for the answer before it lets go of data.
func storePart(ctx context.Context, s store, bucket, key, id string, number int, data []byte) <-chan storedPart {
	answer := make(chan storedPart, 1)
	go func() {
		sums := sum(data)
		part, err := s.PutObjectPart(ctx, bucket, key, id, number, bytes.NewReader(data), int64(len(data)),
			minio.PutObjectPartOptions{Md5Base64: sums.md5Base64, Sha256Hex: sums.sha256Hex})
		answer <- storedPart{part: part, md5: sums.md5, err: err}
	}()
	return answer
}

// fill reads until the buffer is full. io.EOF says that the body ended cleanly,
// with n bytes of it in the buffer. io.ReadFull would not do: it says the same
// of a body that is over and of one that broke off.
func fill(body io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var m int
		m, err = body.Read(buffer[n:])
		n += m
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("%w: %w", errBroken, err)
	}
	return n, err
}

type sums struct {
	md5                  []byte
	md5Base64, sha256Hex string
}

func sum(data []byte) sums {
	m := md5.Sum(data) //nolint:gosec // as above
	s := sha256.Sum256(data)
	return sums{md5: m[:], md5Base64: base64.StdEncoding.EncodeToString(m[:]), sha256Hex: hex.EncodeToString(s[:])}
}

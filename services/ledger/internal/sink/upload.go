package sink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
)

const (
	// partSize is one part of a multipart upload, the least that S3 takes.
	partSize = 5 << 20
	// partsInFlight is how many parts of one upload are stored at once, while the
	// next one comes: an upload takes the memory of one part more.
	partsInFlight = 2
	// abortTimeout bounds the clean-up after an upload that was given up.
	abortTimeout = 30 * time.Second
)

var (
	errEmpty    = errors.New("empty body")
	errTooLarge = errors.New("body over the limit")
	// errBroken is a body that ended before its end: its sender is gone.
	errBroken = errors.New("body broke off")
)

// buffers lends the memory of parts.
var buffers = sync.Pool{New: func() any { b := make([]byte, partSize); return &b }}

// part is a stretch of a body. Whoever has one releases it.
type part struct {
	buffer *[]byte
	n      int
	// last says that the body ended with it, cleanly.
	last bool
}

func (p part) data() []byte { return (*p.buffer)[:p.n] }

func (p part) release() { buffers.Put(p.buffer) }

// read reads the next part, which is full unless it is the last one.
// io.ReadFull would not do: it says the same of a body that is over and of one
// that broke off.
func read(body io.Reader) (part, error) {
	p := part{buffer: buffers.Get().(*[]byte)} //nolint:forcetypeassert // the pool holds nothing else
	for p.n < partSize {
		n, err := body.Read((*p.buffer)[p.n:])
		p.n += n
		if errors.Is(err, io.EOF) {
			p.last = true
			return p, nil
		}
		if err != nil {
			p.release()
			return part{}, fmt.Errorf("%w: %w", errBroken, err)
		}
	}
	return p, nil
}

// store writes objects, part by part; minio.Core implements it.
type store interface {
	PutObject(ctx context.Context, bucket, object string, data io.Reader, size int64, md5Base64, sha256Hex string, opts minio.PutObjectOptions) (minio.UploadInfo, error)
	NewMultipartUpload(ctx context.Context, bucket, object string, opts minio.PutObjectOptions) (string, error)
	PutObjectPart(ctx context.Context, bucket, object, uploadID string, partID int, data io.Reader, size int64, opts minio.PutObjectPartOptions) (minio.ObjectPart, error)
	CompleteMultipartUpload(ctx context.Context, bucket, object, uploadID string, parts []minio.CompletePart, opts minio.PutObjectOptions) (minio.UploadInfo, error)
	AbortMultipartUpload(ctx context.Context, bucket, object, uploadID string) error
	EndpointURL() *url.URL
}

// target is the object that an upload makes.
type target struct {
	store       store
	bucket, key string
	opts        minio.PutObjectOptions
}

// upload streams body into the store. What is smaller than a part is one put;
// a larger body goes part by part, and nothing is visible, or left behind,
// unless all of it came.
//
// What is sent carries the CRC32C of its bytes, which the store checks and keeps
// (a bucket that locks its objects takes nothing without), and their SHA-256
// inside the signature. An ETag would prove less: it is an MD5 sum only where the
// bucket's encryption leaves it one.
//
// commit is called once, after the last byte came and before the object becomes
// visible; its error gives the upload up.
func upload(ctx context.Context, t target, body io.Reader, limit int64, commit func() error) error {
	first, err := read(body)
	if err != nil {
		return err
	}
	if !first.last {
		return t.putParts(ctx, first, body, limit, commit)
	}
	defer first.release()
	switch {
	case first.n == 0:
		return errEmpty
	case int64(first.n) > limit:
		return errTooLarge
	}
	if err := commit(); err != nil {
		return err
	}
	opts := t.opts
	opts.UserMetadata = map[string]string{checksumHeader: checksum(first.data())}
	_, err = t.store.PutObject(ctx, t.bucket, t.key, bytes.NewReader(first.data()), int64(first.n), "", t.payloadHash(first.data()), opts)
	if err != nil {
		return fmt.Errorf("storing the object: %w", err)
	}
	return nil
}

// putParts stores the first part and then the rest of the body.
func (t target) putParts(ctx context.Context, first part, body io.Reader, limit int64, commit func() error) (err error) {
	opts := t.opts
	opts.UserMetadata = map[string]string{algorithmHeader: "CRC32C"}
	id, err := t.store.NewMultipartUpload(ctx, t.bucket, t.key, opts)
	if err != nil {
		first.release()
		return fmt.Errorf("beginning the upload: %w", err)
	}
	defer func() {
		if err == nil {
			return
		}
		// The caller may be gone; its parts must go all the same.
		abortCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		if abortErr := t.store.AbortMultipartUpload(abortCtx, t.bucket, t.key, id); abortErr != nil {
			err = errors.Join(err, fmt.Errorf("removing the parts of an upload that was given up: %w", abortErr))
		}
	}()
	stored, err := t.storeParts(ctx, id, first, body, limit)
	if err != nil {
		return err
	}
	if err := commit(); err != nil {
		return err
	}
	if _, err := t.store.CompleteMultipartUpload(ctx, t.bucket, t.key, id, stored, t.opts); err != nil {
		return fmt.Errorf("completing the upload: %w", err)
	}
	return nil
}

// storeParts stores the parts of one upload, some at once, and returns when none
// is under way any more.
func (t target) storeParts(ctx context.Context, id string, first part, body io.Reader, limit int64) ([]minio.CompletePart, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(partsInFlight)
	stored := make([]minio.CompletePart, limit/partSize+1) // each part has its own place
	var count int
	var readErr error
	for p, total := first, int64(0); readErr == nil; p, readErr = read(body) {
		total += int64(p.n)
		if total > limit {
			readErr = errTooLarge
		}
		if readErr != nil || p.n == 0 || groupCtx.Err() != nil {
			p.release()
			break
		}
		place, number := &stored[count], count+1
		count++
		group.Go(func() (err error) { // waits while as many parts as may be are under way
			defer p.release()
			*place, err = t.storePart(groupCtx, id, number, p.data())
			return err
		})
		if p.last {
			break
		}
	}
	storeErr := group.Wait()
	switch {
	case storeErr != nil && !errors.Is(storeErr, context.Canceled): // a sender who left cancels
		return nil, storeErr
	case readErr != nil:
		return nil, readErr
	case storeErr != nil:
		return nil, storeErr
	case ctx.Err() != nil: // so the loop may have ended before the body
		return nil, fmt.Errorf("storing the parts: %w", ctx.Err())
	}
	return stored[:count], nil
}

func (t target) storePart(ctx context.Context, id string, number int, data []byte) (minio.CompletePart, error) {
	sum := checksum(data)
	p, err := t.store.PutObjectPart(ctx, t.bucket, t.key, id, number, bytes.NewReader(data), int64(len(data)),
		minio.PutObjectPartOptions{Sha256Hex: t.payloadHash(data), CustomHeader: http.Header{checksumHeader: {sum}}})
	if err != nil {
		return minio.CompletePart{}, fmt.Errorf("storing part %d: %w", number, err)
	}
	return minio.CompletePart{PartNumber: p.PartNumber, ETag: p.ETag, ChecksumCRC32C: sum}, nil
}

// The headers of S3's additional checksums.
const (
	checksumHeader  = "X-Amz-Checksum-Crc32c"
	algorithmHeader = "X-Amz-Checksum-Algorithm"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC32C as S3 spells it.
func checksum(data []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(data, castagnoli)))
}

// payloadHash is the SHA-256 that goes into a request's signature. Without TLS
// the client sums and signs each chunk by itself, and needs none.
func (t target) payloadHash(data []byte) string {
	if t.store.EndpointURL().Scheme != "https" {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// toleratedSkew is the difference of clocks beyond which links are valid late
// or end early.
const toleratedSkew = 30 * time.Second

// exposed are the headers that a replay page reads; browsers hide others.
var exposed = []string{"Content-Range", "Content-Length", "Accept-Ranges", "ETag"}

func (s shell) objects() (*minio.Client, error) {
	endpoint, err := url.Parse(s.getenv("S3_ENDPOINT"))
	if err != nil || endpoint.Host == "" {
		return nil, errors.New("S3_ENDPOINT is not a URL")
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(s.getenv("S3_ACCESS_KEY"), s.getenv("S3_SECRET_KEY"), ""),
		Secure:       endpoint.Scheme == "https",
		Region:       s.getenv("S3_REGION"),
		BucketLookup: minio.BucketLookupPath,
		MaxRetries:   1,
	})
	if err != nil {
		return nil, errors.New("S3_ENDPOINT cannot be used")
	}
	return client, nil
}

func examineBucket(ctx context.Context, sh shell) (string, error) {
	client, err := sh.objects()
	if err != nil {
		return "", err
	}
	bucket := sh.getenv("S3_BUCKET")
	there, err := client.BucketExists(ctx, bucket)
	if err != nil {
		return "", remark{"the store does not answer, or not to these keys (" + minio.ToErrorResponse(err).Code + ")", "see S3_ENDPOINT, S3_ACCESS_KEY and S3_SECRET_KEY"}
	}
	if !there {
		return "", remark{"there is no bucket " + bucket, "make it, or correct S3_BUCKET"}
	}
	versions, err := client.GetBucketVersioning(ctx, bucket)
	if err != nil || !versions.Enabled() {
		return "", remark{bucket + " keeps no versions", "switch them on: without them an overwritten archive is lost, and links cannot pin the admitted one"}
	}
	return bucket + " keeps versions", nil
}

func examineClock(ctx context.Context, sh shell) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, sh.getenv("S3_ENDPOINT"), http.NoBody)
	if err != nil {
		return "", errors.New("S3_ENDPOINT is not a URL")
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", remark{"the store does not answer", "see S3_ENDPOINT"}
	}
	defer func() { _ = reply.Body.Close() }()
	theirs, err := http.ParseTime(reply.Header.Get("Date"))
	if err != nil {
		return "", remark{"the store tells no time", "ask its operator for the Date header"}
	}
	skew := time.Since(theirs).Round(time.Second)
	if skew.Abs() > toleratedSkew {
		return "", remark{fmt.Sprintf("this clock is %s ahead of the store's", skew), "see the time service of both: links are valid late or end early"}
	}
	return fmt.Sprintf("within %s of the store's", toleratedSkew), nil
}

// examineReplay asks for a range of a real object as a browser on the replay
// page does.
func examineReplay(ctx context.Context, sh shell, origin string) (string, error) {
	client, err := sh.objects()
	if err != nil {
		return "", err
	}
	bucket := sh.getenv("S3_BUCKET")
	var key string
	for object := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true, MaxKeys: 10}) {
		if object.Err == nil && object.Size > 0 {
			key = object.Key
			break
		}
	}
	if key == "" {
		return "", remark{"there is no object to try", "capture something first"}
	}
	link, err := client.PresignedGetObject(ctx, bucket, key, time.Minute, nil)
	if err != nil {
		return "", fmt.Errorf("signing a link: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, link.String(), http.NoBody)
	if err != nil {
		return "", fmt.Errorf("forming the request: %w", err)
	}
	request.Header.Set("Origin", origin)
	request.Header.Set("Range", "bytes=-1")
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", remark{"the store does not answer", "see S3_ENDPOINT"}
	}
	defer func() { _ = reply.Body.Close() }()
	return judgeReplay(reply, origin)
}

func judgeReplay(reply *http.Response, origin string) (string, error) {
	const rule = "set the bucket's CORS rule of docs/replay.md"
	if reply.StatusCode != http.StatusPartialContent {
		return "", remark{"a range is answered with " + reply.Status, "the store, or a proxy before it, must serve ranges"}
	}
	if allowed := reply.Header.Get("Access-Control-Allow-Origin"); allowed != "*" && allowed != origin {
		return "", remark{"a page of " + origin + " may not read the answer", rule}
	}
	shown := strings.ToLower(strings.Join(reply.Header.Values("Access-Control-Expose-Headers"), ","))
	for _, name := range exposed {
		if !strings.Contains(shown, strings.ToLower(name)) && shown != "*" {
			return "", remark{"a page may not see the header " + name, rule}
		}
	}
	return "ranges work for a page of " + origin, nil
}

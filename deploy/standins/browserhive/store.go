package browserhive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// store takes a finished artifact and says where it is.
type store interface {
	put(ctx context.Context, name, contentType string, data []byte) (location string, err error)
}

// bucketStore writes to the S3 bucket that the stand-in was started with.
type bucketStore struct {
	s3     *minio.Client
	bucket string
}

func (s bucketStore) put(ctx context.Context, name, contentType string, data []byte) (string, error) {
	_, err := s.s3.PutObject(ctx, s.bucket, name, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{ContentType: contentType})
	if err != nil {
		return "", fmt.Errorf("putting %s into bucket %s: %w", name, s.bucket, err)
	}
	return "s3://" + s.bucket + "/" + name, nil
}

// noStore is the store of a stand-in without a bucket: only captures with a
// sink can be kept.
type noStore struct{}

func (noStore) put(context.Context, string, string, []byte) (string, error) {
	return "", errors.New("the stand-in was started without a bucket and the request names no artifactSink")
}

// sinkStore hands the artifacts to the ledger, one PUT each.
type sinkStore struct {
	client *http.Client
	sink   artifactSink
}

func newSinkStore(sink artifactSink) sinkStore {
	return sinkStore{client: &http.Client{Timeout: time.Minute}, sink: sink}
}

func (s sinkStore) put(ctx context.Context, name, contentType string, data []byte) (string, error) {
	target := strings.TrimSuffix(s.sink.URL, "/") + "/" + url.PathEscape(name)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, target, bytes.NewReader(data))
	if err != nil {
		return "", fmt.Errorf("making the sink's request: %w", err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Authorization", "Bearer "+s.sink.Token)
	resp, err := s.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("putting %s into the sink: %w", name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return "", fmt.Errorf("reading the sink's reply: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the sink answered %d to %s: %.200s", resp.StatusCode, name, body)
	}
	var reply struct {
		Location string `json:"location"`
	}
	if err := json.Unmarshal(body, &reply); err != nil || reply.Location == "" {
		return "", fmt.Errorf("the sink's reply to %s names no location: %.200s", name, body)
	}
	return reply.Location, nil
}

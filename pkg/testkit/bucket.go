package testkit

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3 is a bucket of one test on the running store, with versions.
type S3 struct {
	Endpoint, Region, Bucket, AccessKey, SecretKey string
}

// Bucket makes a fresh bucket. It is left to the engines' end: a bucket with
// versions in it is not quickly removed.
func Bucket(t testing.TB) S3 {
	t.Helper()
	s := S3{
		Endpoint:  setting(t, "S3_ENDPOINT"),
		Region:    setting(t, "S3_REGION"),
		Bucket:    "test-" + strings.ToLower(rand.Text()[:16]),
		AccessKey: setting(t, "S3_ACCESS_KEY"),
		SecretKey: setting(t, "S3_SECRET_KEY"),
	}
	client := s.Client(t)
	ctx := context.Background()
	if err := client.MakeBucket(ctx, s.Bucket, minio.MakeBucketOptions{Region: s.Region}); err != nil {
		t.Fatalf("making the test's bucket: %v", err)
	}
	if err := client.EnableVersioning(ctx, s.Bucket); err != nil {
		t.Fatalf("switching on the bucket's versions: %v", err)
	}
	return s
}

// Client is a plain S3 client, for what a test puts into the bucket itself.
func (s S3) Client(t testing.TB) *minio.Client {
	t.Helper()
	endpoint, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatalf("reading the store's endpoint: %v", err)
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""),
		Region: s.Region,
	})
	if err != nil {
		t.Fatalf("making the S3 client: %v", err)
	}
	return client
}

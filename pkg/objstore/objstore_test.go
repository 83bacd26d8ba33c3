package objstore_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/objstore"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/pkg/testkit"
)

func settings(s testkit.S3) config.Store {
	return config.Store{Endpoint: s.Endpoint, Region: s.Region, Bucket: s.Bucket, AccessKey: s.AccessKey, SecretKey: s.SecretKey}
}

func TestStatAndRead(t *testing.T) {
	t.Parallel()
	bucket := testkit.Bucket(t)
	s3, err := objstore.NewS3(settings(bucket))
	if err != nil {
		t.Fatal(err)
	}
	client, err := objstore.New(settings(bucket))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"plain.wacz", "a b+c%2Fd#e.wacz", "org/acme/2026-11/港__x.wacz"} {
		if _, err := s3.PutObject(t.Context(), bucket.Bucket, key, strings.NewReader("1234567890"), 10, minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
		object, err := client.Stat(t.Context(), bucket.Bucket, key)
		if err != nil || object.Size != 10 || object.ETag == "" || object.VersionID == "" || strings.Contains(object.ETag, `"`) {
			t.Errorf("%s: %+v, %v", key, object, err)
		}
		body, err := client.Read(t.Context(), bucket.Bucket, key, 10)
		if err != nil || string(body) != "1234567890" {
			t.Errorf("%s: %q, %v", key, body, err)
		}
		if _, err := client.Read(t.Context(), bucket.Bucket, key, 9); !errors.Is(err, objstore.ErrTooLarge) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if _, err := client.Stat(t.Context(), bucket.Bucket, "nothing"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a missing key: %v", err)
	}
	if _, err := client.Read(t.Context(), bucket.Bucket, "nothing", 1); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a missing key: %v", err)
	}
	if err := client.Ready(t.Context(), bucket.Bucket); err != nil {
		t.Error(err)
	}
	if err := client.Ready(t.Context(), "no-such-bucket"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a missing bucket: %v", err)
	}
}

// What the store says is told apart: refused, gone, and not there for us at all.
func TestErrorsAreToldApart(t *testing.T) {
	t.Parallel()
	answer := func(status int) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + lis.Addr().String()
	lis.Close()
	for name, tc := range map[string]struct {
		endpoint string
		want     error
	}{
		"403":     {answer(http.StatusForbidden), objstore.ErrForbidden},
		"404":     {answer(http.StatusNotFound), objstore.ErrNotFound},
		"503":     {answer(http.StatusServiceUnavailable), objstore.ErrUnavailable},
		"refused": {nobody, objstore.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := objstore.New(config.Store{Endpoint: tc.endpoint, Region: "us-east-1", AccessKey: "k", SecretKey: "s"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Stat(t.Context(), "bucket", "key")
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if errors.Is(tc.want, objstore.ErrUnavailable) && !errors.Is(err, rpcerr.ErrUnavailable) {
				t.Fatal("a caller would not be told to come again")
			}
		})
	}
}

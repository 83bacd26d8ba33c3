package engines

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/muniment/muniment/deploy/local/internal/process"
)

// Bucket is where the local BrowserHive writes.
const Bucket = "browserhive"

// Store is the running S3 store.
type Store struct {
	Endpoint, Region, AccessKey, SecretKey string

	address string
}

func startStore(ctx context.Context, set *process.Set, instance *process.Instance, sayf Say) (*Store, error) {
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	s := &Store{
		Endpoint: "http://" + addresses[0], Region: "us-east-1",
		AccessKey: "local" + rand.Text()[:11], SecretKey: rand.Text(),
		address: addresses[0],
	}
	base := filepath.Join(instance.Dir, "s3")
	if err := os.RemoveAll(base); err != nil {
		return nil, fmt.Errorf("removing the last stack's objects: %w", err)
	}
	objects, versions, metadata := filepath.Join(base, "objects"), filepath.Join(base, "versions"), filepath.Join(base, "metadata")
	for _, dir := range []string{objects, versions, metadata} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("making the store's folders: %w", err)
		}
	}
	args := []string{
		"--port", addresses[0], "--region", s.Region, "--quiet", "--keep-alive", "--health", "/healthz",
		"posix", "--versioning-dir", versions,
	}
	if !keepsAttributes(objects) {
		// It keeps an object's metadata in extended attributes where it can.
		args = append(args, "--sidecar", metadata)
	}
	sayf("starting the S3 store on %s", addresses[0])
	return s, set.Start(ctx, process.Spec{
		Name:  "s3",
		Path:  binary(instance.Root, "versitygw"),
		Args:  append(args, objects),
		Env:   process.Environment("ROOT_ACCESS_KEY_ID="+s.AccessKey, "ROOT_SECRET_ACCESS_KEY="+s.SecretKey),
		Ready: process.Answers(s.Endpoint + "/healthz"),
	})
}

// MakeBucket makes a bucket that keeps versions.
func (s *Store) MakeBucket(ctx context.Context, name string) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	if err := client.MakeBucket(ctx, name, minio.MakeBucketOptions{Region: s.Region}); err != nil {
		return fmt.Errorf("making the bucket %s: %w", name, err)
	}
	if err := client.EnableVersioning(ctx, name); err != nil {
		return fmt.Errorf("switching on the versions of %s: %w", name, err)
	}
	return nil
}

// Client is an S3 client with the store's own keys.
func (s *Store) Client() (*minio.Client, error) {
	client, err := minio.New(s.address, &minio.Options{
		Creds:  credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""),
		Region: s.Region,
	})
	if err != nil {
		return nil, fmt.Errorf("making the S3 client: %w", err)
	}
	return client, nil
}

// keepsAttributes tries whether the file system of dir keeps user attributes.
func keepsAttributes(dir string) bool {
	return !errors.Is(setAttribute(dir), syscall.ENOTSUP)
}

// Command browserhive-standin stands in for BrowserHive in the local stack; see
// package browserhive. Local stack only.
//
//	browserhive-standin -listen 127.0.0.1:8481 \
//	    -s3-endpoint http://127.0.0.1:7070 -s3-bucket browserhive -s3-region us-east-1
//
// The bucket's keys come from the environment, S3_ACCESS_KEY and S3_SECRET_KEY.
// Without -s3-endpoint only captures with an artifactSink can be kept.
// GET /status answers 200.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/muniment/muniment/deploy/standins/browserhive"
	"github.com/muniment/muniment/deploy/standins/serve"
	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/objstore"
)

func main() {
	serve.Main("browserhive-standin", run)
}

func run(ctx context.Context, flags *flag.FlagSet, args []string) (err error) {
	var settings browserhive.Settings
	listen := flags.String("listen", "127.0.0.1:0", "loopback address to listen on, host:port; port 0 takes a free one")
	endpoint := flags.String("s3-endpoint", "", "URL of the S3 endpoint; keys from S3_ACCESS_KEY and S3_SECRET_KEY")
	region := flags.String("s3-region", "us-east-1", "region of the bucket")
	bucket := flags.String("s3-bucket", "browserhive", "bucket that the artifacts go to")
	flags.DurationVar(&settings.NavigationTimeout, "navigation-timeout", 0, "limit for fetching the page itself (default 30s)")
	flags.Int64Var(&settings.BodyCap, "body-cap", 0, "size in bytes over which a body is left out (default 2097152)")
	flags.StringVar(&settings.LateManifest, "late-manifest", "", "part of a page's URL that makes its manifest late: written on POST /standin/manifests/release or after -late-manifest-delay")
	flags.DurationVar(&settings.LateManifestDelay, "late-manifest-delay", 0, "how late a late manifest is at most (default 30s)")
	if err := serve.Parse(flags, args); err != nil {
		return err
	}
	var s3 *minio.Client
	if *endpoint != "" {
		store := config.Store{Endpoint: *endpoint, Region: *region, Bucket: *bucket, AccessKey: os.Getenv("S3_ACCESS_KEY"), SecretKey: os.Getenv("S3_SECRET_KEY")}
		if cmp.Or(store.AccessKey, store.SecretKey) == "" {
			return errors.New("-s3-endpoint needs S3_ACCESS_KEY and S3_SECRET_KEY in the environment")
		}
		if s3, err = objstore.NewS3(store); err != nil {
			return fmt.Errorf("preparing the S3 client: %w", err)
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	server, err := browserhive.New(settings, s3, *bucket, log, time.Now)
	if err != nil {
		return fmt.Errorf("preparing the stand-in: %w", err)
	}
	defer server.Close()
	return serve.HTTP(ctx, os.Stdout, "browserhive-standin", *listen, server)
}

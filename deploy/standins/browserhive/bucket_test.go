package browserhive_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/muniment/muniment/deploy/standins/browserhive"
	"github.com/muniment/muniment/deploy/standins/site"
	"github.com/muniment/muniment/pkg/testkit"
)

func TestWithoutASinkTheBucketGetsIt(t *testing.T) {
	t.Parallel()
	store := testkit.Bucket(t)
	s3 := store.Client(t)
	demo := httptest.NewServer(site.Handler())
	t.Cleanup(demo.Close)
	standIn, err := browserhive.New(browserhive.Settings{}, s3, store.Bucket, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(standIn)
	t.Cleanup(func() { server.Close(); standIn.Close() })

	got := capture(t, server, body(demo.URL+"/", nil, nil))
	if got.Report.Status != "success" || got.Manifest.Location != "s3://"+store.Bucket+"/"+got.TaskID+"_crawl-1_harbour.result.json" {
		t.Fatalf("got %+v", got)
	}
	read := func(location string) []byte {
		object, err := s3.GetObject(context.Background(), store.Bucket, strings.TrimPrefix(location, "s3://"+store.Bucket+"/"), minio.GetObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		data, err := io.ReadAll(object)
		if err != nil {
			t.Fatalf("reading %s: %v", location, err)
		}
		return data
	}
	var stored report
	if err := json.Unmarshal(read(got.Manifest.Location), &stored); err != nil || stored.TaskID != got.TaskID {
		t.Errorf("stored manifest %+v, %v", stored, err)
	}
	checkPackage(t, openWACZ(t, read(got.Report.Artifacts["wacz"])))
}

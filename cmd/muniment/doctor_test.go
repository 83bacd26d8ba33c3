package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/cors"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/muniment/muniment/pkg/grpcx"
	"github.com/muniment/muniment/pkg/testkit"
)

// installation is the settings of a healthy one, but for the bucket's CORS rule.
func installation(t *testing.T) (map[string]string, testkit.S3) {
	t.Helper()
	engine, bucket := testkit.OpenFGA(t), testkit.Bucket(t)
	if _, err := bucket.Client(t).PutObject(t.Context(), bucket.Bucket, "a.wacz", strings.NewReader("0123"), 4, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{
		"MUNIMENT_DATABASE_URL": testkit.Postgres(t).URL("superuser"),
		"OPENFGA_API_URL":       engine.APIURL, "OPENFGA_STORE_ID": engine.StoreID, "OPENFGA_MODEL_ID": engine.ModelID,
		"MUNIMENT_ISSUER_URL": testkit.Issuer(t).URL,
		"S3_ENDPOINT":         bucket.Endpoint, "S3_REGION": bucket.Region, "S3_BUCKET": bucket.Bucket,
		"MUNIMENT_LEDGER_WEBHOOK_URL": bucket.Endpoint, // anything that answers
		"S3_ACCESS_KEY":               bucket.AccessKey, "S3_SECRET_KEY": bucket.SecretKey,
	}
	certificates := testkit.Certificates(t)
	operator := certificates.Files("operator")
	settings["MUNIMENT_TLS_CERT_FILE"], settings["MUNIMENT_TLS_KEY_FILE"], settings["MUNIMENT_TLS_CA_FILE"] = operator.Cert, operator.Key, operator.CA
	for _, s := range services {
		settings[s.setting()] = serveHealth(t, certificates.Files(s.name), nil)
	}
	return settings, bucket
}

// serveHealth is a service that has nothing but its health, which is check's word.
func serveHealth(t *testing.T, files grpcx.TLSFiles, check error) string {
	t.Helper()
	address := testkit.FreeAddress(t)
	srv, err := grpcx.NewServer(grpcx.ServerSettings{
		Address: address, TLS: files, CheckEvery: 10 * time.Millisecond, MaxConnectionAge: time.Minute, ShutdownTimeout: time.Second,
		Checks: []grpcx.Check{{Name: "database", Run: func(context.Context) error { return check }}},
	}, prometheus.NewRegistry(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- srv.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		ready := srv.Ready()
		return (ready == nil) == (check == nil) && (ready == nil || ready.Error() != "starting"), fmt.Sprint(ready)
	})
	return address
}

// What each service says of itself, replica by replica, and what to do.
func TestDoctorAsksTheServices(t *testing.T) {
	t.Parallel()
	certificates := testkit.Certificates(t)
	operator := certificates.Files("operator")
	signer := certificates.Files("signer")
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "database: start it", http.StatusServiceUnavailable)
	}))
	t.Cleanup(page.Close)
	well, ill := serveHealth(t, signer, nil), serveHealth(t, signer, errors.New("start it"))
	settings := map[string]string{
		"MUNIMENT_TLS_CERT_FILE": operator.Cert, "MUNIMENT_TLS_KEY_FILE": operator.Key, "MUNIMENT_TLS_CA_FILE": operator.CA,
	}
	for _, test := range []struct{ addresses, pages, ca, want string }{
		{well + "," + well, "", operator.CA, "ok    the signer: 2 replicas, all ready"},
		{well + "," + ill, "", operator.CA, "FAIL  the signer: " + ill + " is not ready; its page /readyz"},
		{well + "," + ill, "x," + page.Listener.Addr().String(), operator.CA, "FAIL  the signer: " + ill + " is not ready; it waits for this: database: start it"},
		{ill, "127.0.0.1:1", operator.CA, "it waits for this: unknown, nothing answers on 127.0.0.1:1"},
		{"127.0.0.1:1", "", operator.CA, "FAIL  the signer: nothing answers on 127.0.0.1:1; start it, or correct MUNIMENT_SIGNER_GRPC_ADDRESS"},
		{well, "", operator.Cert, "FAIL  the signer: " + well + " and this certificate do not accept each other"},
		{"nowhere", "", operator.CA, "see MUNIMENT_SIGNER_GRPC_ADDRESS"},
		{"", "", operator.CA, "skip  the signer: MUNIMENT_SIGNER_GRPC_ADDRESS is not set"},
	} {
		out, _ := doctor(t, settings, map[string]string{
			"MUNIMENT_SIGNER_GRPC_ADDRESS": test.addresses, "MUNIMENT_SIGNER_DEBUG_ADDRESS": test.pages, "MUNIMENT_TLS_CA_FILE": test.ca,
		})
		if !strings.Contains(out, test.want) {
			t.Errorf("%s: want %q in\n%s", test.addresses, test.want, out)
		}
	}
}

func doctor(t *testing.T, settings map[string]string, changes map[string]string) (string, error) {
	t.Helper()
	all := maps.Clone(settings)
	maps.Copy(all, changes)
	var out bytes.Buffer
	err := run(t.Context(), shell{out: &out, getenv: func(name string) string { return all[name] }}, []string{"doctor"})
	return out.String(), err
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	settings, bucket := installation(t)
	out, err := doctor(t, settings, nil)
	if err == nil || !strings.Contains(out, "FAIL  replay: a page of https://replay.example.org may not read the answer; set the bucket's CORS rule") {
		t.Errorf("T18 without a CORS rule: %v\n%s", err, out)
	}
	rule := cors.NewConfig([]cors.Rule{{
		AllowedOrigin: []string{"https://replay.example.org"}, AllowedMethod: []string{"GET", "HEAD"}, AllowedHeader: []string{"Range"},
		ExposeHeader: []string{"Content-Range", "Content-Length", "Accept-Ranges", "ETag"},
	}})
	if err := bucket.Client(t).SetBucketCors(t.Context(), bucket.Bucket, rule); err != nil {
		t.Fatal(err)
	}
	if out, err := doctor(t, settings, nil); err != nil || strings.Contains(out, "FAIL") || strings.Contains(out, "skip") {
		t.Errorf("a healthy installation: %v\n%s", err, out)
	}
	for name, test := range map[string]struct{ value, want string }{
		"OPENFGA_MODEL_ID":            {"01ARZ3NDEKTSV4RRFFQ69G5FAV", "FAIL  model pin: OPENFGA_MODEL_ID 01ARZ3NDEKTSV4RRFFQ69G5FAV"},
		"MUNIMENT_ISSUER_URL":         {settings["MUNIMENT_ISSUER_URL"] + "/", "FAIL  issuer: the issuer calls itself"},
		"S3_BUCKET":                   {"not-there", "FAIL  bucket: there is no bucket not-there"},
		"S3_SECRET_KEY":               {"wrong", "FAIL  bucket: the store does not answer, or not to these keys"},
		"MUNIMENT_DATABASE_URL":       {"postgres://nobody:secret@127.0.0.1:1/x", "FAIL  database roles: the database does not answer"},
		"MUNIMENT_LEDGER_WEBHOOK_URL": {"http://127.0.0.1:1/api", "FAIL  webhook: nothing answers"},
		"MUNIMENT_FEED_GRPC_ADDRESS":  {"127.0.0.1:1", "FAIL  the feed-archiver: nothing answers on 127.0.0.1:1"},
		"S3_ENDPOINT":                 {"", "skip  clock: S3_ENDPOINT is not set"},
	} {
		out, err := doctor(t, settings, map[string]string{name: test.value})
		if !strings.Contains(out, test.want) || (err == nil) != strings.HasPrefix(test.want, "skip") {
			t.Errorf("%s=%s: %v\n%s", name, test.value, err, out)
		}
		if strings.Contains(out, "secret@") {
			t.Errorf("a password is printed:\n%s", out)
		}
	}
}

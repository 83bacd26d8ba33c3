package main

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/cors"

	"github.com/muniment/muniment/pkg/testkit"
)

// installation is the settings of a healthy one, but for the bucket's CORS rule.
func installation(t *testing.T) (map[string]string, testkit.S3) {
	t.Helper()
	engine, bucket := testkit.OpenFGA(t), testkit.Bucket(t)
	if _, err := bucket.Client(t).PutObject(t.Context(), bucket.Bucket, "a.wacz", strings.NewReader("0123"), 4, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"MUNIMENT_DATABASE_URL": testkit.Postgres(t).URL("superuser"),
		"OPENFGA_API_URL":       engine.APIURL, "OPENFGA_STORE_ID": engine.StoreID, "OPENFGA_MODEL_ID": engine.ModelID,
		"MUNIMENT_ISSUER_URL": testkit.Issuer(t).URL,
		"S3_ENDPOINT":         bucket.Endpoint, "S3_REGION": bucket.Region, "S3_BUCKET": bucket.Bucket,
		"MUNIMENT_LEDGER_WEBHOOK_URL": bucket.Endpoint, // anything that answers
		"S3_ACCESS_KEY":               bucket.AccessKey, "S3_SECRET_KEY": bucket.SecretKey,
	}, bucket
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

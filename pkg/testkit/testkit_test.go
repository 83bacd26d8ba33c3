package testkit_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/muniment/muniment/pkg/devca"
	"github.com/muniment/muniment/pkg/testkit"
)

func TestPostgresGivesEachTestItsOwnDatabase(t *testing.T) {
	t.Parallel()
	one, two := testkit.Postgres(t), testkit.Postgres(t)
	if one.Name == two.Name {
		t.Fatalf("two tests share the database %s", one.Name)
	}
	ctx := context.Background()
	for role, schema := range map[string]string{
		"ledger": "ledger", "signer": "signer", "reconciler": "reconciler", "relay": "outbox", "feed": "feed",
	} {
		var current, path string
		err := one.Pool(t, role).QueryRow(ctx, "SELECT current_user, current_schema()").Scan(&current, &path)
		if err != nil {
			t.Fatalf("as %s: %v", role, err)
		}
		if current != "muniment_"+role || path != schema {
			t.Errorf("role %s is %s in schema %s, want muniment_%s in %s", role, current, path, role, schema)
		}
	}
}

func TestOpenFGAStoresAreApart(t *testing.T) {
	t.Parallel()
	one, two := testkit.OpenFGA(t), testkit.OpenFGA(t)
	if one.StoreID == two.StoreID || one.ModelID == "" {
		t.Fatalf("stores %q and %q, model %q", one.StoreID, two.StoreID, one.ModelID)
	}
}

func TestBucketKeepsVersions(t *testing.T) {
	t.Parallel()
	bucket := testkit.Bucket(t)
	client := bucket.Client(t)
	ctx := context.Background()
	var versions []string
	for _, body := range []string{"one", "two"} {
		info, err := client.PutObject(ctx, bucket.Bucket, "a", strings.NewReader(body), int64(len(body)), minio.PutObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, info.VersionID)
	}
	if versions[0] == "" || versions[0] == versions[1] {
		t.Fatalf("versions %q: want two different ones", versions)
	}
}

func TestCertificatesCarryTheName(t *testing.T) {
	t.Parallel()
	certs := testkit.Certificates(t)
	for _, name := range devca.Names {
		if _, err := certs.Files(name).Server(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIssuerPublishesItsKeys(t *testing.T) {
	t.Parallel()
	issuer := testkit.Issuer(t)
	if parts := strings.Split(issuer.Token("alice", "acme"), "."); len(parts) != 3 {
		t.Fatalf("a token of %d parts", len(parts))
	}
	resp, err := http.Get(issuer.URL + "/.well-known/openid-configuration")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("discovery answers %s", resp.Status)
	}
}

package presign_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/muniment/muniment/services/signer/internal/presign"
)

// files writes credentials as a secret mount does, and returns settings for them.
func files(t *testing.T) (presign.Settings, func(name, content string)) {
	t.Helper()
	dir := t.TempDir()
	s := settings()
	s.AccessKeyFile, s.SecretKeyFile = filepath.Join(dir, "access"), filepath.Join(dir, "secret")
	s.SessionTokenFile, s.ExpiryFile = filepath.Join(dir, "token"), filepath.Join(dir, "expiry")
	return s, func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestT15CredentialsAreRenewed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	s, write := files(t)
	for name, content := range map[string]string{"access": "old", "secret": "s1", "token": "t1", "expiry": "2026-11-30T12:10:00Z"} {
		write(name, content)
	}
	f, err := presign.NewFiles(s, zap.NewNop(), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Check(t.Context()); err != nil {
		t.Errorf("fresh credentials: %v", err)
	}
	now = now.Add(9*time.Minute + 45*time.Second)
	if err := f.Check(t.Context()); err == nil {
		t.Error("credentials with 15 s left count as good")
	}
	// A file that is just missing changes nothing and says so.
	if err := os.Remove(s.SecretKeyFile); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(); err == nil || !strings.Contains(err.Error(), "S3_SECRET_KEY_FILE") {
		t.Errorf("a missing file: %v", err)
	}
	if got := f.Current().AccessKey; got != "old" {
		t.Errorf("the access key is %q", got)
	}
	for name, content := range map[string]string{"access": "new", "secret": "s2", "token": "t2", "expiry": "2026-11-30T13:10:00Z"} {
		write(name, content)
	}
	if err := f.Reload(); err != nil {
		t.Fatal(err)
	}
	want := presign.Credentials{AccessKey: "new", SecretKey: "s2", SessionToken: "t2", Expires: time.Date(2026, 11, 30, 13, 10, 0, 0, time.UTC)}
	if got := f.Current(); got != want {
		t.Errorf("got %+v", got)
	}
	if err := f.Check(t.Context()); err != nil {
		t.Errorf("renewed credentials: %v", err)
	}
}

func TestCredentialFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	s, write := files(t)
	write("access", "a")
	write("secret", "")
	write("token", "t")
	write("expiry", "soon")
	for _, want := range []string{"S3_SECRET_KEY_FILE names an empty file", "S3_CREDENTIALS_EXPIRY_FILE must hold"} {
		if _, err := presign.NewFiles(s, zap.NewNop(), time.Now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		write("secret", "s")
	}
}

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muniment/muniment/pkg/config"
)

type settings struct {
	config.Database
	Name   string `env:"NAME,required"`
	Secret string `env:"SECRET_FILE,file"`
	Count  int    `env:"COUNT" envDefault:"3"`
}

func (s *settings) Validate(prefix string) error { return s.Database.Validate(prefix) }

func secretFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	t.Parallel()
	var s settings
	err := config.Load("X_", []string{
		"X_NAME=ledger", "X_DATABASE_URL=postgres://u@h/db", "X_COUNT=", "OTHER=1",
		"X_SECRET_FILE=" + secretFile(t, "hush\n"),
	}, &s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "ledger" || s.Secret != "hush" || s.Count != 3 || s.MaxConns != 16 {
		t.Fatalf("%+v", s)
	}
}

func TestLoadNamesTheSetting(t *testing.T) {
	t.Parallel()
	good := []string{"X_NAME=n", "X_DATABASE_URL=postgres://u@h/db"}
	for name, tc := range map[string]struct {
		environ []string
		want    string
	}{
		"unknown":       {append(good, "X_NAMES=typo"), "X_NAMES"},
		"missing":       {[]string{"X_DATABASE_URL=postgres://u@h/db"}, "X_NAME is required"},
		"not a number":  {append(good, "X_COUNT=many"), "X_COUNT: "},
		"no such file":  {append(good, "X_SECRET_FILE=/nowhere/at/all"), "X_SECRET_FILE"},
		"not a URL":     {[]string{"X_NAME=n", "X_DATABASE_URL=mysql://u:hush@h/db"}, "X_DATABASE_URL"},
		"two passwords": {[]string{"X_NAME=n", "X_DATABASE_URL=postgres://u:hush@h/db", "X_DATABASE_PASSWORD_FILE=" + secretFile(t, "p")}, "X_DATABASE_PASSWORD_FILE"},
		"unknown mode":  {append(good, "X_DATABASE_MODE=fast"), "X_DATABASE_MODE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := config.Load("X_", tc.environ, &settings{}, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want a mention of %s", err, tc.want)
			}
			if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "hush") {
				t.Fatalf("not one line, or a secret in it: %q", err)
			}
		})
	}
}

func TestLoadAllowsNamedExceptions(t *testing.T) {
	t.Parallel()
	environ := []string{"X_NAME=n", "X_DATABASE_URL=postgres://u@h/db", "X_NWS_ALERTS_URL=http://localhost"}
	allowed := func(name string) bool { return strings.HasSuffix(name, "_URL") }
	if err := config.Load("X_", environ, &settings{}, allowed); err != nil {
		t.Fatal(err)
	}
}

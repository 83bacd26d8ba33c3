// Package testenv prepares running engines for tests: the migrated template
// that pkg/testkit clones databases from, and the MUNIMENT_TEST_ variables that
// tell it where everything is.
package testenv

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/deploy/local/internal/engines"
	"github.com/muniment/muniment/deploy/local/internal/process"
	"github.com/muniment/muniment/deploy/openfga"
	"github.com/muniment/muniment/migrations"
)

// Prepare makes the template and returns the variables that tests want, as
// NAME=value lines.
func Prepare(ctx context.Context, e *engines.Engines, instance *process.Instance) ([]string, error) {
	model, err := openfga.Model()
	if err != nil {
		return nil, err
	}
	modelFile := filepath.Join(instance.Dir, "model.json")
	if err := os.WriteFile(modelFile, model, 0o644); err != nil {
		return nil, fmt.Errorf("writing the authorization model: %w", err)
	}
	template := e.Postgres.Scoped("muniment_template")
	if err := MakeTemplate(ctx, e.Postgres.URL("postgres"), template); err != nil {
		return nil, err
	}
	if err := e.Postgres.SetRolePasswords(ctx); err != nil {
		return nil, err
	}
	return []string{
		"MUNIMENT_TEST_DATABASE_URL=" + e.Postgres.URL("postgres"),
		"MUNIMENT_TEST_TEMPLATE=" + template,
		"MUNIMENT_TEST_ROLE_PASSWORD=" + e.Postgres.RolePassword(),
		"MUNIMENT_TEST_OPENFGA_URL=" + e.OpenFGA.APIURL,
		"MUNIMENT_TEST_OPENFGA_GRPC=" + e.OpenFGA.GRPCAddress,
		"MUNIMENT_TEST_OPENFGA_MODEL=" + modelFile,
		"MUNIMENT_TEST_S3_ENDPOINT=" + e.Store.Endpoint,
		"MUNIMENT_TEST_S3_REGION=" + e.Store.Region,
		"MUNIMENT_TEST_S3_ACCESS_KEY=" + e.Store.AccessKey,
		"MUNIMENT_TEST_S3_SECRET_KEY=" + e.Store.SecretKey,
		"MUNIMENT_TEST_BIN=" + filepath.Join(instance.Root, ".local", "bin-race"),
	}, nil
}

// MakeTemplate makes the migrated database anew beside the old one and then
// puts it in its place: who clones at that moment gets the one or the other.
// Several may do so at once; they go one after the other.
func MakeTemplate(ctx context.Context, superuserURL, name string) error {
	conn, err := pgx.Connect(ctx, superuserURL)
	if err != nil {
		return fmt.Errorf("connecting to the test server: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	const lockKey = 0x74656d706c617465 // "template"
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(lockKey)); err != nil {
		return fmt.Errorf("waiting for another template: %w", err)
	}

	fresh := name + "_new"
	quotedFresh, quotedName := pgx.Identifier{fresh}.Sanitize(), pgx.Identifier{name}.Sanitize()
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS " + quotedFresh + " WITH (FORCE)",
		"CREATE DATABASE " + quotedFresh + " TEMPLATE template0",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("making the template: %w", err)
		}
	}
	u, err := url.Parse(superuserURL)
	if err != nil {
		return fmt.Errorf("reading the test server's URL: %w", err)
	}
	u.Path = "/" + fresh
	if err := migrations.Up(ctx, u.String()); err != nil {
		return err
	}
	for _, statement := range []string{
		// A template that nobody can connect to can always be cloned.
		"ALTER DATABASE " + quotedFresh + " ALLOW_CONNECTIONS false",
		"DROP DATABASE IF EXISTS " + quotedName + " WITH (FORCE)",
		"ALTER DATABASE " + quotedFresh + " RENAME TO " + quotedName,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("putting the template in its place: %w", err)
		}
	}
	return nil
}

// Write writes variables as a file that a shell can source.
func Write(file, comment string, variables []string) error {
	var text strings.Builder
	for line := range strings.Lines(comment) {
		text.WriteString("# " + strings.TrimRight(line, "\n") + "\n")
	}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		text.WriteString(name + "='" + strings.ReplaceAll(value, "'", `'\''`) + "'\n")
	}
	// Renamed into place: a reader sees the old file or the new one.
	temporary := file + ".new"
	if err := os.WriteFile(temporary, []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(file), err)
	}
	if err := os.Rename(temporary, file); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(file), err)
	}
	return nil
}

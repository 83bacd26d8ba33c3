package engines

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/deploy/local/internal/process"
)

// ExternalPostgres names the variable that points the stack at a running
// server: a superuser's URL. The stack makes databases there and drops them.
const ExternalPostgres = "MUNIMENT_EXTERNAL_POSTGRES_URL"

// Postgres is a running server, ours or an external one.
type Postgres struct {
	superuser *url.URL
	// suffix keeps an external server's databases apart from other stacks'.
	suffix   string
	external bool
	password string
	record   string // file that lists the databases made on an external server
}

// Roles are the login roles by the short names that variables use.
var Roles = map[string]string{
	"migrate":    "muniment_migrate",
	"ledger":     "muniment_ledger",
	"signer":     "muniment_signer",
	"reconciler": "muniment_reconciler",
	"relay":      "muniment_relay",
	"feed":       "muniment_feed",
}

func startPostgres(ctx context.Context, set *process.Set, instance *process.Instance, sayf Say) (*Postgres, error) {
	password, err := secret(instance.Root, "postgres-roles")
	if err != nil {
		return nil, err
	}
	p := &Postgres{password: password, record: filepath.Join(instance.Dir, "databases")}
	if external := os.Getenv(ExternalPostgres); external != "" {
		return p, p.useExternal(ctx, external, instance, sayf)
	}
	bin, err := findPostgres(ctx, sayf)
	if err != nil {
		return nil, err
	}
	account, err := serverAccount()
	if err != nil {
		return nil, err
	}
	data, err := dataFolder(instance, account)
	if err != nil {
		return nil, err
	}
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(addresses[0], ":")
	sayf("starting Postgres (%s) on %s", bin, addresses[0])
	if err := initCluster(ctx, set, bin, data, password, account); err != nil {
		return nil, err
	}
	p.superuser = &url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", password),
		Host: addresses[0], Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return p, set.Start(ctx, process.Spec{
		Name: "postgres",
		Path: filepath.Join(bin, "postgres"),
		Args: []string{
			"-D", data, "-h", host, "-p", port,
			"-c", "unix_socket_directories=",
			"-c", "max_connections=400",
			"-c", "fsync=on",
			"-c", "timezone=UTC", "-c", "log_timezone=UTC",
			// Each test clones a database: a checkpoint at every clone would
			// write all of them out.
			"-c", "max_wal_size=4GB", "-c", "checkpoint_timeout=15min",
		},
		Env:   process.Environment("LC_ALL=C"),
		User:  account,
		Stop:  syscall.SIGINT, // "fast": does not wait for clients
		Dying: syscall.SIGINT,
		Ready: p.ping,
	})
}

// initCluster makes a fresh cluster whose superuser is postgres.
func initCluster(ctx context.Context, set *process.Set, bin, data, password string, account *syscall.Credential) error {
	passwordFile := data + ".password"
	if err := os.WriteFile(passwordFile, []byte(password+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing the superuser's password: %w", err)
	}
	defer os.Remove(passwordFile)
	if account != nil {
		if err := os.Chown(passwordFile, int(account.Uid), int(account.Gid)); err != nil {
			return fmt.Errorf("handing over the superuser's password: %w", err)
		}
	}
	return set.Run(ctx, process.Spec{
		Name: "initdb",
		Path: filepath.Join(bin, "initdb"),
		Args: []string{
			"-D", data, "-U", "postgres", "--pwfile", passwordFile,
			"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions",
		},
		Env:  process.Environment("LC_ALL=C"),
		User: account,
	})
}

func (p *Postgres) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.superuser.String())
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (p *Postgres) useExternal(ctx context.Context, external string, instance *process.Instance, sayf Say) error {
	u, err := url.Parse(external)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return fmt.Errorf("%s must be a postgres:// URL of a superuser", ExternalPostgres)
	}
	p.superuser, p.external = u, true
	p.suffix = fmt.Sprintf("_%s_%d", strings.ReplaceAll(instance.Name, "-", "_"), os.Getpid())
	sayf("using the Postgres server at %s", u.Host)
	if err := p.ping(ctx); err != nil {
		return fmt.Errorf("connecting to %s: %w", ExternalPostgres, err)
	}
	return p.close(ctx) // what a killed launcher left there
}

// close drops the databases that were made on an external server.
func (p *Postgres) close(ctx context.Context) error {
	if p == nil || !p.external {
		return nil
	}
	names, err := os.ReadFile(p.record)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the list of databases: %w", err)
	}
	for name := range strings.Lines(string(names)) {
		if err := p.Exec(ctx, "postgres", "DROP DATABASE IF EXISTS "+quote(strings.TrimSpace(name))+" WITH (FORCE)"); err != nil {
			return fmt.Errorf("dropping a database: %w", err)
		}
	}
	return os.Remove(p.record)
}

// Database makes a database, empty and owned by owner (a role that exists, or
// "" for the superuser), and returns its full name.
func (p *Postgres) Database(ctx context.Context, name, owner string) (string, error) {
	full := p.Scoped(name)
	if p.external {
		f, err := os.OpenFile(p.record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return "", fmt.Errorf("noting a database: %w", err)
		}
		_, err = f.WriteString(full + "\n")
		if err := errors.Join(err, f.Close()); err != nil {
			return "", fmt.Errorf("noting a database: %w", err)
		}
	}
	statement := "CREATE DATABASE " + quote(full) + " TEMPLATE template0"
	if owner != "" {
		statement += " OWNER " + quote(owner)
	}
	if err := p.Exec(ctx, "postgres", statement); err != nil {
		return "", fmt.Errorf("making the database %s: %w", full, err)
	}
	return full, nil
}

// Scoped is the name that a database has on this server: on an external one it
// carries the stack's own suffix.
func (p *Postgres) Scoped(name string) string { return name + p.suffix }

// URL is the superuser's URL of a database.
func (p *Postgres) URL(database string) string {
	u := *p.superuser
	u.Path = "/" + database
	return u.String()
}

// RoleURL is a role's URL of a database; role is a short name (see Roles).
func (p *Postgres) RoleURL(role, database string) string {
	u := *p.superuser
	u.Path = "/" + database
	u.User = url.UserPassword(Roles[role], p.password)
	return u.String()
}

// RolePassword is the password of every role of ours.
func (p *Postgres) RolePassword() string { return p.password }

// SetRolePasswords gives the roles their password. Migrations make them without.
func (p *Postgres) SetRolePasswords(ctx context.Context) error {
	names := make([]string, 0, len(Roles))
	for _, role := range Roles {
		names = append(names, role)
	}
	slices.Sort(names)
	// One lock for all launchers of an external server: two that change one
	// role at once end in "tuple concurrently updated".
	var script strings.Builder
	script.WriteString("BEGIN; LOCK TABLE pg_catalog.pg_authid IN SHARE ROW EXCLUSIVE MODE;")
	for _, name := range names {
		fmt.Fprintf(&script, "ALTER ROLE %s PASSWORD '%s';", quote(name), p.password)
	}
	script.WriteString("COMMIT")
	if err := p.Exec(ctx, "postgres", script.String()); err != nil {
		return fmt.Errorf("setting the roles' passwords: %w", err)
	}
	return nil
}

// Exec runs SQL as the superuser.
func (p *Postgres) Exec(ctx context.Context, database, sql string) error {
	conn, err := pgx.Connect(ctx, p.URL(database))
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", database, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// places are where packages put the server's programs outside of PATH.
var places = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/libexec/postgresql*",
	"/usr/local/pgsql/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// lookPostgres returns the folder with initdb and postgres, or "".
func lookPostgres() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target // Debian's wrapper folders hold links
		}
		if dir := filepath.Dir(path); hasServer(dir) {
			return dir
		}
	}
	for _, pattern := range places {
		dirs, _ := filepath.Glob(pattern)
		slices.Sort(dirs)
		for _, dir := range slices.Backward(dirs) { // the newest version first
			if hasServer(dir) {
				return dir
			}
		}
	}
	return ""
}

func hasServer(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// findPostgres looks for the server's programs and, as root on Debian, installs
// them where there are none.
func findPostgres(ctx context.Context, sayf Say) (string, error) {
	if dir := lookPostgres(); dir != "" {
		return dir, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return "", errors.New("no Postgres server found: " + installHint())
	}
	if err := aptInstall(ctx, sayf, "postgresql"); err != nil {
		return "", err
	}
	if dir := lookPostgres(); dir != "" {
		return dir, nil
	}
	return "", errors.New("the package postgresql is installed, but its server is in none of the usual places: put the folder with initdb into PATH")
}

// installHint is the command for the system at hand.
func installHint() string {
	for _, manager := range []struct{ program, command string }{
		{"apt-get", "sudo apt-get install postgresql"},
		{"dnf", "sudo dnf install postgresql-server"},
		{"apk", "sudo apk add postgresql"},
		{"pacman", "sudo pacman -S postgresql"},
		{"zypper", "sudo zypper install postgresql-server"},
		{"brew", "brew install postgresql"},
	} {
		if _, err := exec.LookPath(manager.program); err == nil {
			return "install it with '" + manager.command + "', or set " + ExternalPostgres
		}
	}
	return "install the PostgreSQL server with your system's package manager, or set " + ExternalPostgres
}

package testkit

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"
	"time"
)

// Pooler starts pgbouncer in transaction mode in front of a database, with five
// connections for however many clients, and returns the URL of the same role
// through it. Where pgbouncer is not installed the test is skipped.
func Pooler(t testing.TB, direct string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not installed: nothing to pool transactions with")
	}
	server, err := url.Parse(direct)
	if err != nil {
		t.Fatal("the database's URL is no URL")
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := lis.Addr().(*net.TCPAddr) //nolint:forcetypeassert // what a TCP listener has
	_ = lis.Close()

	password, _ := server.User.Password()
	database, role := server.Path[1:], server.User.Username()
	settings := fmt.Sprintf(`[databases]
%s = host=%s port=%s dbname=%s user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
max_client_conn = 500
`, database, server.Hostname(), server.Port(), database, role, password, address.Port)
	file := filepath.Join(t.TempDir(), "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-q", file}
	if self, err := user.Current(); err == nil && self.Uid == "0" {
		args = append([]string{"-u", "nobody"}, args...) // it refuses to run as root
	}
	cmd := exec.Command(program, args...)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting pgbouncer: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	Eventually(t, 10*time.Second, func() (bool, string) {
		conn, err := net.Dial("tcp", address.String())
		if err != nil {
			return false, err.Error()
		}
		_ = conn.Close()
		return true, ""
	})
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", role, address, database)
}

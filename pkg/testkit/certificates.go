package testkit

import (
	"testing"
	"time"

	"github.com/muniment/muniment/pkg/devca"
	"github.com/muniment/muniment/pkg/grpcx"
)

// Certs are the certificates of one test, of a CA of its own.
type Certs struct{ dir string }

// Certificates makes a CA and a certificate for every identity, for a stranger
// with our CA ("stranger") too.
func Certificates(t testing.TB) Certs {
	t.Helper()
	dir := t.TempDir()
	names := append([]string{"stranger"}, devca.Names...)
	if err := devca.Write(dir, names, time.Now()); err != nil {
		t.Fatalf("making certificates: %v", err)
	}
	return Certs{dir: dir}
}

// Files are the files of the named identity.
func (c Certs) Files(name string) grpcx.TLSFiles { return devca.Files(c.dir, name) }

package engines

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/muniment/muniment/deploy/local/internal/process"
)

// serverAccount is the account that Postgres, which refuses to run as root,
// runs as: nil when the launcher is not root.
func serverAccount() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nil is the launcher's own account, see above
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(account.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(account.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("reading the account %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("Postgres refuses to run as root, and there is neither an account 'postgres' nor 'nobody' to run it as: run as another user")
}

// dataFolder makes the empty folder of a cluster, owned by account. It lies in
// the instance's folder, or, where another account cannot get there (a checkout
// under /root), in the system's folder for temporary files.
func dataFolder(instance *process.Instance, account *syscall.Credential) (string, error) {
	parent := filepath.Join(instance.Dir, "postgres")
	if account != nil && !openToAll(instance.Dir) {
		sum := sha256.Sum256([]byte(instance.Dir))
		parent = filepath.Join(os.TempDir(), "muniment-"+hex.EncodeToString(sum[:6]))
	}
	if err := os.RemoveAll(parent); err != nil {
		return "", fmt.Errorf("removing the last stack's cluster: %w", err)
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", fmt.Errorf("making the cluster's folder: %w", err)
	}
	if account != nil {
		if err := os.Chown(parent, int(account.Uid), int(account.Gid)); err != nil {
			return "", fmt.Errorf("handing over the cluster's folder: %w", err)
		}
	}
	return filepath.Join(parent, "data"), nil
}

// openToAll says whether everybody may pass through every folder on the way.
func openToAll(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

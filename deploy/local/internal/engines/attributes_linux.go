package engines

import "syscall"

func setAttribute(path string) error {
	return syscall.Setxattr(path, "user.muniment", []byte("probe"), 0)
}

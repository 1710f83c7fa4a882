package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const lockFile = ".lock"

// ErrLocked is wrapped by AcquireLock's error where another process holds the
// run folder.
var ErrLocked = errors.New("in use by another process")

// Lock is the right to write into a run folder. The operating system drops it
// when the process ends, however it ends.
type Lock struct{ f *os.File }

// AcquireLock takes the lock of a run folder, which must exist. It does not
// wait. The lock is advisory and does not work across machines on every
// network file system.
func AcquireLock(dir string) (*Lock, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock run folder: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s is %w%s: wait for it or choose another folder", dir, ErrLocked, holder(f))
	}
	if err == nil {
		err = sign(f)
	}
	if err != nil {
		return nil, fmt.Errorf("lock run folder: %w", errors.Join(err, f.Close()))
	}
	return &Lock{f: f}, nil
}

// sign writes the process id into the file, for the message of a second comer.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

func holder(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

// Release gives the lock back. The file stays: removing it could take it from
// under another process that has just opened it.
func (l *Lock) Release() error { return l.f.Close() }

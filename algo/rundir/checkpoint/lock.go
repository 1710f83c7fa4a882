package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/openmanus/openmanus/internal/filelock"
)

// LockFile is the name of the lock file in a run folder.
const LockFile = ".lock"

// ErrLocked is wrapped by AcquireLock's error if another process holds the lock.
var ErrLocked = errors.New("in use by another process")

// Lock is the right to write into a run folder. The operating system releases
// the lock when the process ends.
type Lock struct{ f *os.File }

// AcquireLock takes the lock of an existing run folder. It does not wait: it returns an
// error that wraps ErrLocked if another process holds the lock. The lock is advisory;
// some network file systems do not share it between machines.
func AcquireLock(dir string) (*Lock, error) {
	f, err := filelock.Open(filepath.Join(dir, LockFile), os.O_RDWR)
	if errors.Is(err, filelock.ErrLocked) {
		err = fmt.Errorf("%s is %w%s: wait for it or choose another folder", dir, ErrLocked, holder(f))
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil { // the process id, which another process names in its ErrLocked error
		_, err = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	if err != nil {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		return nil, fmt.Errorf("lock run folder: %w", err)
	}
	return &Lock{f}, nil
}

// Held reports whether a process holds the lock of the run folder dir.
func Held(dir string) (bool, error) {
	held, err := filelock.Held(filepath.Join(dir, LockFile))
	if errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOTSUP) { // a file system without locks
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("test the lock of the run folder: %w", err)
	}
	return held, nil
}

// holder returns the process id in the file, for the text of an error.
func holder(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

// Release releases the lock. It keeps the file, since another process may just have
// opened it.
func (l *Lock) Release() error { return l.f.Close() }

// Remove releases the lock and removes the folder, which must hold only the lock file.
func (l *Lock) Remove() error {
	err := os.Remove(l.f.Name())
	if err == nil {
		if err = os.Remove(filepath.Dir(l.f.Name())); errors.Is(err, syscall.ENOTEMPTY) { // another process already uses the folder
			err = nil
		}
	}
	return errors.Join(err, l.f.Close())
}

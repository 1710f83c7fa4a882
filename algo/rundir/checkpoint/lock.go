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

// LockFile is the name of the lock file in a run folder.
const LockFile = ".lock"

// ErrLocked is wrapped by AcquireLock's error if another process holds the lock.
var ErrLocked = errors.New("in use by another process")

// Lock is the right to write into a run folder. The operating system releases it when
// the process ends.
type Lock struct{ f *os.File }

// AcquireLock takes the lock of an existing run folder. It does not wait: it returns an
// error that wraps ErrLocked if another process holds the lock. The lock is advisory;
// some network file systems do not share it between machines.
func AcquireLock(dir string) (*Lock, error) {
	path := filepath.Join(dir, LockFile)
	for {
		f, err := lock(path)
		if err != nil {
			return nil, fmt.Errorf("lock run folder: %w", err)
		}
		held, err := f.Stat()
		if err != nil {
			return nil, fmt.Errorf("lock run folder: %w", errors.Join(err, f.Close()))
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(held, there) {
			return &Lock{f}, nil
		}
		_ = f.Close() // another process removed the file before it was locked here
	}
}

// lock opens the file, locks it and writes the process id into it, for the error of
// another process.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s is %w%s: wait for it or choose another folder", filepath.Dir(path), ErrLocked, holder(f))
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
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

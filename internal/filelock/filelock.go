// Package filelock opens files under the advisory lock of flock(2).
package filelock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// Open opens the file at path with the flags of os.OpenFile, creates it if necessary,
// and takes its exclusive lock without waiting. Closing the file releases the lock. If
// another process replaces the file before it is locked, Open opens the new file. The
// file is also returned if it cannot be locked: with ErrLocked, or with the error of a
// file system without locks.
func Open(path string, flags int) (*os.File, error) {
	for range 100 {
		f, err := os.OpenFile(path, flags|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		err = syscall.EINTR
		for errors.Is(err, syscall.EINTR) {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return f, ErrLocked
		}
		opened, statErr := f.Stat()
		named, namedErr := os.Stat(path)
		if statErr != nil || namedErr == nil && os.SameFile(opened, named) {
			return f, errors.Join(err, statErr)
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: other processes keep replacing the file", path)
}

// Package filelock opens files under the advisory lock of flock(2).
package filelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// Open repeats a refused lock heldTries times, because Held takes the lock for a moment.
const (
	heldTries = 20
	heldPause = 5 * time.Millisecond
)

// flock takes a lock without waiting.
func flock(f *os.File, how int) error {
	err := error(syscall.EINTR)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	}
	return err
}

// Held reports whether a process holds the lock of the file at path. It does not
// change the file, which need not exist.
func Held(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // releases the lock
	err = flock(f, syscall.LOCK_SH)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// Open opens the file at path with the flags of os.OpenFile, creates it if necessary,
// and takes its exclusive lock without waiting for another holder. Closing the file releases the lock. If
// another process replaces the file before it is locked, Open opens the new file. The
// file is also returned if it cannot be locked: with ErrLocked, or with the error of a
// file system without locks.
func Open(path string, flags int) (*os.File, error) {
	for range 100 {
		f, err := os.OpenFile(path, flags|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		for tries := 1; ; tries++ {
			if err = flock(f, syscall.LOCK_EX); !errors.Is(err, syscall.EWOULDBLOCK) {
				break
			}
			if tries == heldTries {
				return f, ErrLocked
			}
			time.Sleep(heldPause) // another process may be in Held
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

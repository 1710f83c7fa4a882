package hub

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/openmanus/openmanus/internal/backoff"
	"github.com/openmanus/openmanus/internal/filelock"
)

// lockPoll is the pause between attempts to take a lock.
const lockPoll = 200 * time.Millisecond

// lock takes the lock of a blob, which huggingface_hub also takes, and waits for another process that holds it. On a file
// system without locks it takes none: a damaged file is then found by its hash.
func (c *Client) lock(ctx context.Context, id string, f file) (unlock func() error, err error) {
	path := filepath.Join(c.Cache, ".locks", repoFolder(id), f.hash+".lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	told := false
	for {
		held, err := filelock.Open(path, os.O_RDWR)
		switch {
		case err == nil:
			return held.Close, nil
		case held == nil:
			return nil, err
		}
		_ = held.Close() // nothing was written
		if !errors.Is(err, filelock.ErrLocked) {
			if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.EOPNOTSUPP) {
				return func() error { return nil }, nil
			}
			return nil, err
		}
		if !told {
			c.Log.Info("waiting for another process that fetches the same file", "file", f.name, "lock", path)
			told = true
		}
		if !backoff.Sleep(ctx, lockPoll) {
			return nil, context.Cause(ctx)
		}
	}
}

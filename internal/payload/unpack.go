package payload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/openmanus/openmanus/internal/filelock"
)

// temporary begins the names of folders that are being unpacked or removed.
const temporary = ".tmp-"

// Installed is an unpacked program that Prune keeps until it is closed.
type Installed struct {
	Dir  string
	Lock *os.File // shared lock; a process that inherits it keeps the program
}

// Find returns the unpacked program of p, or nil if there is none. With deep it compares all contents with the
// manifest, otherwise only names and sizes.
func (c *Cache) Find(p *Payload, deep bool) (*Installed, error) {
	dir := filepath.Join(c.dir, p.Name())
	d, err := openOwn(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	f, err := os.OpenFile(filepath.Join(dir, complete), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) { // removed by Prune
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := c.hold(f, dir, deep)
	if err != nil || found == nil {
		return nil, errors.Join(err, f.Close())
	}
	return found, nil
}

// hold locks a program and checks it. It returns nil if Prune has removed it.
func (c *Cache) hold(f *os.File, dir string, deep bool) (*Installed, error) {
	if err := lock(f, syscall.LOCK_SH); err != nil {
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if named, err := os.Lstat(f.Name()); err != nil || !os.SameFile(opened, named) {
		return nil, nil
	}
	m, err := readManifest(f)
	if err == nil {
		err = m.check(dir, deep)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; end running copies of the program, remove %s and start again", err, dir)
	}
	return &Installed{Dir: dir, Lock: f}, nil
}

// Install returns the unpacked program of p and unpacks it first if necessary. Only one process unpacks at a time. Install
// calls say with a message when it unpacks or waits for another process. It calls try with the new folder before the folder
// gets its name; after an error of try it removes the folder.
func (c *Cache) Install(ctx context.Context, p *Payload, say func(text string), try func(dir string) error) (*Installed, error) {
	l, err := c.lockUnpacking(ctx, say)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if found, err := c.Find(p, false); err != nil || found != nil {
		return found, err
	}
	if err := c.clean(); err != nil {
		return nil, err
	}
	say(fmt.Sprintf("unpacking the program into %s (only at the first start)", c.dir))
	dir := filepath.Join(c.dir, fmt.Sprintf("%s%s-%d", temporary, p.Name(), os.Getpid()))
	err = p.unpackAs(dir, filepath.Join(c.dir, p.Name()), try)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	found, err := c.Find(p, false)
	if err == nil && found == nil {
		err = fmt.Errorf("another process removed %s", filepath.Join(c.dir, p.Name()))
	}
	return found, err
}

// unpackAs unpacks into dir and renames it to final.
func (p *Payload) unpackAs(dir, final string, try func(dir string) error) error {
	m, err := p.Extract(dir)
	if err != nil {
		return err
	}
	if err := try(dir); err != nil {
		return err
	}
	if err := m.write(dir); err != nil {
		return err
	}
	if err := os.Rename(dir, final); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s was not unpacked completely; remove it and start again", final)
	} else if err != nil {
		return err
	}
	return syncDir(filepath.Dir(final))
}

// lockUnpacking takes the lock that unpacking requires.
func (c *Cache) lockUnpacking(ctx context.Context, say func(string)) (*os.File, error) {
	for first := true; ; first = false {
		f, err := filelock.Open(filepath.Join(c.dir, ".lock"), os.O_RDWR)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, filelock.ErrLocked) {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		if first {
			say("waiting for another process that unpacks the program")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another process that unpacks the program (%s): %w", f.Name(), context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// clean removes the folders that killed processes left. The caller holds the lock.
func (c *Cache) clean() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), temporary) {
			if err := os.RemoveAll(filepath.Join(c.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

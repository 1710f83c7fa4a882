package payload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Variable is the environment variable that names the cache folder.
const Variable = "OPENMANUS_CACHE"

// ErrUnsafe means that other users could change the cache folder.
var ErrUnsafe = errors.New("not safe to run programs from")

// Cache is the folder of unpacked programs. No other user can write to it.
type Cache struct{ dir string }

// CacheDir returns the path of the folder of unpacked programs.
func CacheDir(getenv func(string) string) (string, error) {
	root := getenv(Variable)
	if root == "" {
		if base := getenv("XDG_CACHE_HOME"); filepath.IsAbs(base) {
			root = filepath.Join(base, "openmanus")
		} else if home := getenv("HOME"); filepath.IsAbs(home) {
			root = filepath.Join(home, ".cache", "openmanus")
		}
	}
	if !filepath.IsAbs(root) {
		return "", fmt.Errorf("no cache folder: HOME is %q and %s is %q; set %s to the absolute path of a folder", getenv("HOME"), Variable, getenv(Variable), Variable)
	}
	return filepath.Join(root, "programs"), nil
}

// OpenCache opens the folder of unpacked programs at dir, a result of CacheDir, and creates it if create is set. The
// error is ErrUnsafe if another user could change it.
func OpenCache(dir string, create bool) (*Cache, error) {
	root := filepath.Dir(dir)
	if create {
		if err := os.MkdirAll(filepath.Dir(root), 0o700); err != nil {
			return nil, err
		}
	}
	// Links above the cache folder are usual; the folders that they lead to are checked.
	above, err := filepath.EvalSymlinks(filepath.Dir(root))
	if err != nil {
		return nil, err
	}
	for d := above; ; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err != nil {
			return nil, err
		}
		if info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
			return nil, fmt.Errorf("%s is %w: every user can replace what is in it; run chmod o-w on it, or set %s to another folder", d, ErrUnsafe, Variable)
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	root = filepath.Join(above, filepath.Base(root))
	dir = filepath.Join(root, filepath.Base(dir))
	for _, d := range []string{root, dir} {
		if create {
			if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
				return nil, err
			}
		}
		f, err := openOwn(d)
		if err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return &Cache{dir}, nil
}

// openOwn opens a folder and checks that only the user of the process can write to it.
func openOwn(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%s is %w: it is a link or a file, want a folder; set %s to a folder", dir, ErrUnsafe, Variable)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = own(dir, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// own returns an error if another user owns the file or can write to it.
func own(path string, info os.FileInfo) error {
	owner := info.Sys().(*syscall.Stat_t).Uid
	if int(owner) != os.Geteuid() {
		return fmt.Errorf("%s is %w: user %d owns it and this process runs as user %d; set %s to a folder of your own", path, ErrUnsafe, owner, os.Geteuid(), Variable)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is %w: its mode %04o lets other users write; run chmod go-w %s", path, ErrUnsafe, info.Mode().Perm(), path)
	}
	return nil
}

// Program is an unpacked program.
type Program struct {
	Name  string
	Dir   string
	Bytes int64 // size of its files
	InUse bool  // a process runs it
}

// List returns the unpacked programs.
func (c *Cache) List() ([]Program, error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	var list []Program
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		p := Program{Name: e.Name(), Dir: filepath.Join(c.dir, e.Name())}
		f, err := os.Open(filepath.Join(p.Dir, complete))
		if errors.Is(err, os.ErrNotExist) { // removed by another process
			continue
		}
		if err != nil {
			return nil, err
		}
		m, err := readManifest(f)
		if err == nil {
			p.Bytes = m.size()
			p.InUse = errors.Is(lock(f, syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Dir, err)
		}
		list = append(list, p)
	}
	return list, nil
}

// Prune removes the programs that no process runs and returns them.
func (c *Cache) Prune() ([]Program, error) {
	list, err := c.List()
	if err != nil {
		return nil, err
	}
	var removed []Program
	for _, p := range list {
		ok, err := c.remove(p)
		if err != nil {
			return removed, err
		}
		if ok {
			removed = append(removed, p)
		}
	}
	return removed, nil
}

// remove removes a program unless a process runs it.
func (c *Cache) remove(p Program) (bool, error) {
	f, err := os.Open(filepath.Join(p.Dir, complete))
	if errors.Is(err, os.ErrNotExist) { // removed by another process
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	switch err := lock(f, syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, err
	}
	// A launcher that waits for the lock finds that the folder has gone.
	trash := filepath.Join(c.dir, temporary+p.Name)
	if err := errors.Join(os.RemoveAll(trash), os.Rename(p.Dir, trash)); err != nil {
		return false, err
	}
	return true, os.RemoveAll(trash)
}

func lock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

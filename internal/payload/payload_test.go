package payload

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// entry is a member of a test archive.
type entry struct {
	name string
	kind byte // a tar.Type; 0 is a regular file
	text string
	mode int64
}

var small = []entry{
	{name: "top/", kind: tar.TypeDir},
	{name: "top/bin/", kind: tar.TypeDir},
	{name: "top/lib/", kind: tar.TypeDir},
	{name: "top/bin/openmanus", text: "program", mode: 0o755},
	{name: "top/lib/a.so", text: "library", mode: 0o644},
}

// executable writes an executable with an archive of the entries and returns its path.
func executable(t *testing.T, entries []entry) string {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	size := 0
	for _, e := range entries {
		kind := e.kind
		if kind == 0 {
			kind = tar.TypeReg
		}
		h := &tar.Header{Name: e.name, Typeflag: kind, Mode: e.mode, Size: int64(len(e.text)), Linkname: "/etc/passwd"}
		if kind != tar.TypeReg {
			h.Size = 0
		} else {
			h.Linkname = ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(e.text)); err != nil {
				t.Fatal(err)
			}
		}
		size += len(e.text)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "one")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Write(f, []byte("launcher"), b.Bytes(), int64(size)), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string) *Payload {
	t.Helper()
	p, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func newCache(t *testing.T) *Cache {
	t.Helper()
	c, err := OpenCache(filepath.Join(t.TempDir(), "openmanus", "programs"), true)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func install(t *testing.T, c *Cache, p *Payload) *Installed {
	t.Helper()
	in, err := c.Install(t.Context(), p, func(string) {}, func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Lock.Close() }) // a test may have closed it
	return in
}

func TestExtract(t *testing.T) {
	p := open(t, executable(t, small))
	dir := filepath.Join(t.TempDir(), "new")
	m, err := p.Extract(dir)
	if err != nil || len(m) != 2 || m.size() != int64(len("program")+len("library")) {
		t.Fatalf("manifest %+v, error %v", m, err)
	}
	for name, want := range map[string]struct {
		text string
		mode os.FileMode
	}{"bin/openmanus": {"program", 0o500}, "lib/a.so": {"library", 0o400}} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(b) != want.text {
			t.Errorf("%s: %q, error %v", name, b, err)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want.mode {
			t.Errorf("%s: mode %v, want %v, error %v", name, info.Mode(), want.mode, err)
		}
	}
	if err := m.check(dir, true); err != nil {
		t.Error(err)
	}
	if _, err := p.Extract(dir); !errors.Is(err, os.ErrExist) {
		t.Errorf("extracting into an existing folder: %v", err)
	}
}

func TestExtractRejects(t *testing.T) {
	top := entry{name: "top/", kind: tar.TypeDir}
	for name, entries := range map[string][]entry{
		"link":        {top, {name: "top/a", kind: tar.TypeSymlink}},
		"hard link":   {top, {name: "top/a", kind: tar.TypeLink}},
		"device":      {top, {name: "top/a", kind: tar.TypeChar}},
		"parent":      {top, {name: "top/../../escaped", text: "x"}},
		"absolute":    {top, {name: "/../escaped", text: "x"}},
		"twice":       {top, {name: "top/a", text: "x"}, {name: "top/a", text: "y"}},
		"only a file": {{name: "a", text: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := open(t, executable(t, entries)).Extract(filepath.Join(dir, "new")); err == nil {
				t.Error("no error")
			}
			if _, err := os.Lstat(filepath.Join(dir, "escaped")); err == nil {
				t.Error("a file was written outside the folder")
			}
		})
	}
}

func TestDamagedExecutable(t *testing.T) {
	good, err := os.ReadFile(executable(t, small))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func([]byte) []byte{
		"no trailer": func(b []byte) []byte { return b[:len(b)-8] },
		"empty":      func([]byte) []byte { return nil },
		"cut":        func(b []byte) []byte { return b[8:] },
		"archive":    func(b []byte) []byte { b[40] ^= 1; return b },
		"hash":       func(b []byte) []byte { b[len(b)-9] ^= 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "one")
			if err := os.WriteFile(path, change(bytes.Clone(good)), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := Open(path)
			if err == nil {
				_, err = p.Extract(filepath.Join(t.TempDir(), "new"))
				if closed := p.Close(); closed != nil {
					t.Error(closed)
				}
			}
			if !errors.Is(err, ErrNone) && !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestInstallOnce(t *testing.T) {
	c, p := newCache(t), open(t, executable(t, small))
	left := filepath.Join(c.dir, temporary+"left")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	first := install(t, c, p)
	if _, err := os.Lstat(left); err == nil {
		t.Error("the folder of a killed process is still there")
	}
	in, err := c.Install(t.Context(), p, func(string) {}, func(string) error { return errors.New("unpacked again") })
	if err != nil || in.Dir != first.Dir {
		t.Fatalf("%+v, error %v", in, err)
	}
	if err := in.Lock.Close(); err != nil {
		t.Error(err)
	}
}

// TestIncompleteFolder shows that a folder without its list of files is neither executed nor replaced.
func TestIncompleteFolder(t *testing.T) {
	c, p := newCache(t), open(t, executable(t, small))
	in := install(t, c, p)
	if err := os.Remove(filepath.Join(in.Dir, complete)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Install(t.Context(), p, func(string) {}, func(string) error { return nil })
	if want := in.Dir + " was not unpacked completely; remove it and start again"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestFailedTrialLeavesNothing(t *testing.T) {
	c, p := newCache(t), open(t, executable(t, small))
	bad := errors.New("does not start")
	if _, err := c.Install(t.Context(), p, func(string) {}, func(string) error { return bad }); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
	if list, err := c.List(); err != nil || len(list) != 0 {
		t.Errorf("%v, error %v", list, err)
	}
	if entries, err := os.ReadDir(c.dir); err != nil || len(entries) != 1 { // the lock
		t.Errorf("%v, error %v", entries, err)
	}
}

func TestTamperedFiles(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(file string) error
		deep   bool // only a comparison of contents finds it
	}{
		{"removed", os.Remove, false},
		{"shorter", func(f string) error { return os.WriteFile(f, []byte("x"), 0) }, false},
		{"link", func(f string) error { return errors.Join(os.Remove(f), os.Symlink("/etc/passwd", f)) }, false},
		{"other bytes", func(f string) error { return os.WriteFile(f, []byte("LIBRARY"), 0) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, p := newCache(t), open(t, executable(t, small))
			in := install(t, c, p)
			file := filepath.Join(in.Dir, "lib/a.so")
			if err := errors.Join(os.Chmod(file, 0o600), tt.change(file)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Find(p, true); !errors.Is(err, ErrDamaged) {
				t.Errorf("with hashes: %v", err)
			}
			found, err := c.Find(p, false)
			if tt.deep != (err == nil) {
				t.Errorf("without hashes: %v", err)
			}
			if found != nil {
				if err := found.Lock.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestPrune(t *testing.T) {
	c := newCache(t)
	running := install(t, c, open(t, executable(t, small)))
	ended := install(t, c, open(t, executable(t, append(small[:len(small):len(small)], entry{name: "top/new", text: "x"}))))
	if err := ended.Lock.Close(); err != nil {
		t.Fatal(err)
	}
	list, err := c.List()
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, error %v", list, err)
	}
	for _, p := range list {
		if p.InUse != (p.Dir == running.Dir) || p.Bytes < 14 {
			t.Errorf("%+v", p)
		}
	}
	removed, err := c.Prune()
	if err != nil || len(removed) != 1 || removed[0].Dir != ended.Dir {
		t.Errorf("removed %+v, error %v", removed, err)
	}
	if _, err := os.Stat(running.Dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ended.Dir); err == nil {
		t.Error("the program is still there")
	}
}

func TestUnsafeCache(t *testing.T) {
	root := os.Geteuid() == 0
	for _, tt := range []struct {
		name    string
		prepare func(base string) error
		rootly  bool
	}{
		{"link", func(b string) error {
			return errors.Join(os.Mkdir(filepath.Join(b, "to"), 0o700), os.Symlink("to", filepath.Join(b, "openmanus")))
		}, false},
		{"file", func(b string) error { return os.WriteFile(filepath.Join(b, "openmanus"), nil, 0o600) }, false},
		{"group writes", func(b string) error {
			return errors.Join(os.Mkdir(filepath.Join(b, "openmanus"), 0o700), os.Chmod(filepath.Join(b, "openmanus"), 0o770))
		}, false},
		{"everyone writes above", func(b string) error { return os.Chmod(b, 0o777) }, false},
		{"other owner", func(b string) error {
			return errors.Join(os.Mkdir(filepath.Join(b, "openmanus"), 0o700), os.Chown(filepath.Join(b, "openmanus"), 65534, 65534))
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.rootly && !root {
				t.Skip("only root can change the owner of a folder")
			}
			base := t.TempDir()
			if err := tt.prepare(base); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenCache(filepath.Join(base, "openmanus", "programs"), true); !errors.Is(err, ErrUnsafe) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCacheDir(t *testing.T) {
	for _, tt := range []struct{ env, want string }{
		{"OPENMANUS_CACHE=/a XDG_CACHE_HOME=/b HOME=/c", "/a/programs"},
		{"XDG_CACHE_HOME=/b HOME=/c", "/b/openmanus/programs"},
		{"XDG_CACHE_HOME=relative HOME=/c", "/c/.cache/openmanus/programs"},
		{"HOME=/c", "/c/.cache/openmanus/programs"},
		{"", ""},
		{"OPENMANUS_CACHE=relative HOME=/c", ""},
	} {
		env := map[string]string{}
		for _, kv := range strings.Fields(tt.env) {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		got, err := CacheDir(func(k string) string { return env[k] })
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, error %v, want %q", tt.env, got, err, tt.want)
		}
	}
}

func TestNeedSpace(t *testing.T) {
	p := open(t, executable(t, small))
	p.Unpacked = 1 << 60
	if _, err := p.Extract(filepath.Join(t.TempDir(), "new")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
}

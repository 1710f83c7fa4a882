package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Signal is what Notify delivers.
type Signal = os.Signal

// hangUp is the signal of a terminal that closes.
const hangUp = syscall.SIGHUP

// State is all that a command may know of the process it runs in. This file is
// the only one of the program that uses package os; a test gives a State of
// its own and runs whole commands in-process.
type State struct {
	Args   []string // Args[0] is the program's name
	Getenv func(key string) string
	// Environ is the whole environment, for the processes that are started.
	Environ func() []string
	Dir     string // relative paths start here; "" is the process's working folder

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Terminal       bool       // whether Stderr is one
	Columns        func() int // of the terminal; nil, or 0, where that is not known

	Now    func() time.Time
	Notify func(chan<- Signal) (stop func()) // delivers SIGINT, SIGTERM, and SIGHUP unless it was ignored at the start
	Exit   func(code int)                    // ends the process at once: the second Ctrl-C

	Log   *slog.Logger // made by Main from --log-level and --quiet
	Quiet bool         // no progress

	levelFixed  bool          // by a flag, whatever the configuration says
	waitHealthy time.Duration // for servers that are all down, in tests; 0: what the command says
}

// NewState returns the State of the running process.
func NewState() *State {
	return &State{
		Args:     os.Args,
		Getenv:   os.Getenv,
		Environ:  os.Environ,
		Stdin:    os.Stdin,
		Stdout:   os.Stdout,
		Stderr:   lasting(os.Stderr),
		Terminal: term.IsTerminal(int(os.Stderr.Fd())),
		Columns: func() int {
			n, _, err := term.GetSize(int(os.Stderr.Fd()))
			if err != nil { // it is gone, or says nothing
				return 0
			}
			return n
		},
		Now: time.Now,
		Notify: func(c chan<- Signal) func() {
			signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
			if !signal.Ignored(syscall.SIGHUP) { // as under nohup
				signals = append(signals, syscall.SIGHUP)
			}
			signal.Notify(c, signals...)
			return func() { signal.Stop(c) }
		},
		Exit: os.Exit,
	}
}

// lasting returns f under another descriptor. Go ends a program whose write to
// descriptor 1 or 2 meets a closed pipe; progress that nobody reads must not
// end a run before it is saved.
func lasting(f *os.File) *os.File {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil { // f is closed: writes fail, and end nothing
		return f
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), f.Name())
}

// columns is the width of the terminal, 80 where it is not known.
func (s *State) columns() int {
	if s.Columns != nil {
		if n := s.Columns(); n > 0 {
			return n
		}
	}
	return 80
}

// executableSum is the SHA-256 of the program that runs, read once.
var executableSum = sync.OnceValues(func() (string, error) {
	path := "/proc/self/exe" // what runs, also where another build has taken its name since
	if _, err := os.Stat(path); err != nil {
		if path, err = os.Executable(); err != nil {
			return "", err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
})

// Path makes a path of the command line or of a configuration one that can be
// opened.
func (s *State) Path(p string) string {
	if s.Dir == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(s.Dir, p)
}

// ReadFile reads a whole file of at most limit bytes; "-" is standard input.
func (s *State) ReadFile(path string, limit int64) ([]byte, error) {
	var in io.Reader = s.Stdin
	if path != "-" {
		f, err := os.Open(s.Path(path))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("read %s: larger than %d bytes", path, limit)
	}
	return b, nil
}

// Stat describes the file at path.
func (s *State) Stat(path string) (fs.FileInfo, error) { return os.Stat(s.Path(path)) }

// sameFile reports whether two names are those of one file that is there.
func (s *State) sameFile(a, b string) bool {
	one, err := s.Stat(a)
	other, fault := s.Stat(b)
	return err == nil && fault == nil && os.SameFile(one, other)
}

// MkdirAll makes a folder and those above it.
func (s *State) MkdirAll(path string) error { return os.MkdirAll(s.Path(path), 0o755) }

// DirFS is the folder at path, read-only.
func (s *State) DirFS(path string) fs.FS { return os.DirFS(s.Path(path)) }

// Open opens a file for reading.
func (s *State) Open(path string) (io.ReadCloser, error) { return os.Open(s.Path(path)) }

// Append opens a file for writing at its end and makes it if it is not there.
func (s *State) Append(path string) (io.WriteCloser, error) {
	return os.OpenFile(s.Path(path), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
}

// Remove removes a file.
func (s *State) Remove(path string) error { return os.Remove(s.Path(path)) }

// RemoveAll removes a folder with all that is in it, if it is there.
func (s *State) RemoveAll(path string) error { return os.RemoveAll(s.Path(path)) }

// WriteFile writes a file whole or not at all. Without replace an existing
// file stays as it is and the error is fs.ErrExist.
func (s *State) WriteFile(path string, data []byte, replace bool) error {
	f, err := s.Create(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := io.Copy(f, bytes.NewReader(data)); err != nil {
		return err
	}
	return f.Commit(replace)
}

// makeWhole fills a new folder beside path and gives it the name when all of
// it is there; after an error nothing is left.
func (s *State) makeWhole(path string, fill func(dir string) error) error {
	path = s.Path(path)
	tmp, err := os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	err = fill(tmp)
	if err == nil {
		err = os.Chmod(tmp, 0o755)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.RemoveAll(tmp) // the first error says more
	}
	return err
}

// NewFile is a file that appears under its name only when it is whole.
type NewFile struct {
	*os.File
	path string
	done bool
}

// Create starts a file that Commit puts at path.
func (s *State) Create(path string) (*NewFile, error) {
	path = s.Path(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, err
	}
	return &NewFile{File: f, path: path}, nil
}

// Commit puts the file in its place. Without replace an existing file stays as
// it is and the error is fs.ErrExist.
func (f *NewFile) Commit(replace bool) error {
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if !replace {
		// A link, unlike a rename, fails where the name is taken.
		return os.Link(f.Name(), f.path)
	}
	if err := os.Rename(f.Name(), f.path); err != nil {
		return err
	}
	f.done = true
	return nil
}

// Discard removes what was not committed. Calling it after Commit is right.
func (f *NewFile) Discard() {
	if f.done {
		return
	}
	f.done = true
	_ = f.Close() // may be closed already
	_ = os.Remove(f.Name())
}

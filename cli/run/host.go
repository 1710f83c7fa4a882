package run

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/algo"
	"github.com/openmanus/openmanus/algo/ranks"
	"github.com/openmanus/openmanus/algo/rundir"
	"github.com/openmanus/openmanus/internal/errext"
)

// Host is the part of the process that a run may use. Other files of this
// package do not import os.
type Host struct {
	Log *slog.Logger
	Dir string // base of relative paths; "": the working directory

	Stdin   io.Reader // read for the path "-"
	Getenv  func(key string) string
	Environ func() []string // environment variables of started processes
	Now     func() time.Time

	// Progress starts the display of total units of work, or of the elapsed time
	// if total is 0. Displays may be nested: the innermost one is shown.
	Progress func(label string, total int) Progress

	// Ranks are the processes of a training run. nil: this one alone.
	Ranks *ranks.Ranks
	ahead *ranks.Ranks // another connection of the Ranks, for episodes that are played ahead; nil: none

	// Events shows training: its phases, steps and validations.
	Events algo.Events

	// Opened, if set, is called with the locked folder of a training run, before the run opens its models.
	Opened func(*rundir.Folder)
	// Started, unless nil, is called when all parts of a training run are connected over its processes, before the first update.
	Started func()

	// Observer, if set, follows the episodes of runs, evaluations and rollouts while they
	// are played.
	Observer rollout.Observer

	// SettingName returns the caller's name for a configuration key, such as a flag, for
	// error messages. It returns "" if the caller has no other name for the key.
	SettingName func(key string) string

	// WaitHealthy, unless 0, overrides the time to wait for servers that are all
	// down.
	WaitHealthy time.Duration
}

// WithDefaults returns h with a default in each nil field: the environment and
// the clock of the process, an empty Stdin, no log and no display.
func (h Host) WithDefaults() Host {
	h.Log = cmp.Or(h.Log, slog.New(slog.DiscardHandler))
	h.Stdin = cmp.Or[io.Reader](h.Stdin, strings.NewReader(""))
	h.Events = cmp.Or[algo.Events](h.Events, noDisplay{})
	if h.Getenv == nil {
		h.Getenv = os.Getenv
	}
	if h.Environ == nil {
		h.Environ = os.Environ
	}
	if h.Now == nil {
		h.Now = time.Now
	}
	if h.Progress == nil {
		h.Progress = func(string, int) Progress { return noDisplay{} }
	}
	return h
}

// settingName returns SettingName(key), or "" if SettingName is nil.
func (h *Host) settingName(key string) string {
	if h.SettingName == nil {
		return ""
	}
	return h.SettingName(key)
}

// name returns the name of a configuration key in error messages.
func (h *Host) name(key string) string { return cmp.Or(h.settingName(key), key) }

// noDisplay shows nothing.
type noDisplay struct{}

func (noDisplay) Set(int, string)                   {}
func (noDisplay) Live(func() string)                {}
func (noDisplay) Done()                             {}
func (noDisplay) Phase(algo.Phase)                  {}
func (noDisplay) Progress(int, string)              {}
func (noDisplay) Step(int, int, map[string]float64) {}
func (noDisplay) Validated(rundir.Validation)       {}

// Progress shows how far a piece of work is. Its methods may be called
// concurrently.
type Progress interface {
	// Set reports n finished units. The parameter note is a short text beside the bar.
	Set(n int, note string)
	// Live sets a function that returns a second note. The display calls it every second, until Done returns.
	Live(note func() string)
	// Done ends the display. Further calls have no effect.
	Done()
}

// during calls f while the elapsed time is shown beside the label.
func (h *Host) during(label string, f func() error) error {
	bar := h.Progress(label, 0)
	defer bar.Done()
	return f()
}

// Path resolves a path of the command line or of a configuration against Dir. An
// empty path stays empty.
func (h *Host) Path(p string) string {
	if p == "" || h.Dir == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(h.Dir, p)
}

// ReadFile reads a whole file of at most limit bytes. The path "-" reads Stdin.
func (h *Host) ReadFile(path string, limit int64) ([]byte, error) {
	var in io.Reader = h.Stdin
	if path != "-" {
		f, err := os.Open(h.Path(path))
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

// HashFile returns the SHA-256 of a file in hexadecimal.
func (h *Host) HashFile(path string) (string, error) {
	f, err := os.Open(h.Path(path))
	if err != nil {
		return "", errext.With(errext.Input, "", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", errext.With(errext.Input, "", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Stat describes the file at path.
func (h *Host) Stat(path string) (fs.FileInfo, error) { return os.Stat(h.Path(path)) }

// CheckOutput returns an error if path cannot be written because it exists and
// replace is false. An empty path is allowed.
func (h *Host) CheckOutput(path string, replace bool) error {
	if path == "" {
		return nil
	}
	switch _, err := h.Stat(path); {
	case errors.Is(err, fs.ErrNotExist), err == nil && replace:
		return nil
	case err != nil:
		return errext.With(errext.Disk, "", err)
	}
	return errext.With(errext.Usage, "choose another name, or give --force to replace it", fmt.Errorf("%s exists", path))
}

// SameFile reports whether two paths name the same existing file.
func (h *Host) SameFile(a, b string) bool {
	one, err := h.Stat(a)
	other, fault := h.Stat(b)
	return err == nil && fault == nil && os.SameFile(one, other)
}

// DirFS returns the folder at path as a read-only file system.
func (h *Host) DirFS(path string) fs.FS { return os.DirFS(h.Path(path)) }

// Append opens a file for appending and creates it if it does not exist.
func (h *Host) Append(path string) (io.WriteCloser, error) {
	return os.OpenFile(h.Path(path), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
}

// Remove removes a file.
func (h *Host) Remove(path string) error { return os.Remove(h.Path(path)) }

// RemoveAll removes a folder and its contents. A missing folder is no error.
func (h *Host) RemoveAll(path string) error { return os.RemoveAll(h.Path(path)) }

// MakeFolder makes a folder and its parents, unless they exist.
func (h *Host) MakeFolder(dir string) error {
	return errext.With(errext.Disk, "", os.MkdirAll(h.Path(dir), 0o755))
}

// WriteFile is WriteWith for a text.
func (h *Host) WriteFile(path string, text []byte, replace bool) error {
	return h.WriteWith(path, replace, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// WriteWith writes a file atomically: fill writes to a temporary file, which is
// then moved to path. Without replace, an existing file is kept and the error is
// fs.ErrExist. Errors of writing have the code errext.Disk, also if fill returns
// them. Other errors of fill are returned as they are.
func (h *Host) WriteWith(path string, replace bool, fill func(w io.Writer) error) error {
	path = h.Path(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return errext.With(errext.Disk, "", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // no effect after a rename
	w := bufio.NewWriterSize(f, 1<<20)
	fault := fill(w)
	if err = w.Flush(); err == nil && fault != nil { // Flush also returns errors of earlier writes
		_ = f.Close()
		return fault
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	switch {
	case err != nil:
	case replace:
		err = os.Rename(f.Name(), path)
	default:
		err = os.Link(f.Name(), path) // unlike Rename, Link fails if path exists
	}
	return errext.With(errext.Disk, "", err)
}

// MakeWhole creates the folder path atomically: fill writes to a temporary
// folder, which is renamed if fill returns nil and removed otherwise.
func (h *Host) MakeWhole(path string, fill func(dir string) error) error {
	path = h.Path(path)
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
		_ = os.RemoveAll(tmp) // return the first error
	}
	return err
}

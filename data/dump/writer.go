package dump

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/crash"
	"github.com/openmanus/openmanus/internal/filelock"
	"github.com/openmanus/openmanus/internal/plainjson"
)

var atRename = crash.New("dump/rename") // point after writing a complete dump and before its rename

// Writer appends episodes to a dump. It is safe for concurrent use: the lines of
// one Write are written by one system call. In a compressed dump every line is one
// frame, so that a process that dies leaves at most one incomplete line.
type Writer struct {
	path    string
	weights string

	mu     sync.Mutex // guards the fields below
	f      file
	packer *zstd.Encoder // nil in a plain dump
	end    int64         // length of the file's complete lines
	failed error         // error of a failed write; later writes are rejected, since the lines before them would be missing
}

// file is the part of os.File that a Writer uses.
type file interface {
	io.Writer
	Truncate(size int64) error
	Sync() error
	Close() error
}

// compressedName reports whether a dump of that name is compressed.
func compressedName(path string) bool { return strings.HasSuffix(strings.ToLower(path), ".zst") }

// Create starts a new dump, which replaces a file of that name. It is compressed if
// the name ends in .zst.
func Create(path string, h Header) (*Writer, error) {
	w, err := create(path, compressedName(path), h)
	if err != nil {
		return nil, fmt.Errorf("create dump: %w", err)
	}
	return w, nil
}

func create(path string, compress bool, h Header) (*Writer, error) {
	f, err := openToWrite(path)
	if err != nil {
		return nil, err
	}
	w, err := start(f, path, compress, h)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

// openToWrite opens and locks a dump.
func openToWrite(path string) (*os.File, error) {
	f, err := filelock.Open(path, os.O_RDWR|os.O_APPEND)
	if errors.Is(err, filelock.ErrLocked) {
		_ = f.Close()
		return nil, fmt.Errorf("%s: another process is writing to it: wait for it or choose another file", path)
	}
	if f == nil {
		return nil, err
	}
	return f, nil // err is not nil if the file system has no locks; the file is still usable
}

// WriteFile writes a complete dump, which atomically replaces a file of that name.
func WriteFile(path string, h Header, episodes []*data.Episode) (err error) {
	temp := path + ".tmp"
	w, err := create(temp, compressedName(path), h)
	if err != nil {
		return fmt.Errorf("create dump: %w", err)
	}
	for _, e := range episodes {
		if err = w.Write(e); err != nil {
			break
		}
	}
	if err = errors.Join(err, w.Close()); err == nil {
		atRename.Pass()
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// start empties f and writes the header.
func start(f *os.File, path string, compress bool, h Header) (*Writer, error) {
	if err := f.Truncate(0); err != nil && !errors.Is(err, syscall.EINVAL) { // a pipe has no length
		return nil, err
	}
	w, err := newWriter(f, path, h.Weights, compress, 0)
	if err != nil {
		return nil, err
	}
	h.Format, h.Version = Format, Version
	return w, w.lines(h)
}

func newWriter(f file, path, weights string, compress bool, end int64) (*Writer, error) {
	w := &Writer{path: path, weights: weights, f: f, end: end}
	if compress {
		var err error
		// EncodeAll starts no goroutine, and its frames record the length of their text.
		if w.packer, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true)); err != nil {
			return nil, fmt.Errorf("compress %s: %w", path, err)
		}
	}
	return w, nil
}

// Write appends episodes: either all of them or none.
func (w *Writer) Write(episodes ...*data.Episode) error {
	lines := make([]any, len(episodes))
	for i, e := range episodes {
		lines[i] = newLine(e, w.weights)
	}
	return w.lines(lines...)
}

func (w *Writer) lines(values ...any) error {
	var texts [][]byte
	for _, v := range values {
		text, err := plainjson.Marshal(v)
		if err != nil {
			return fmt.Errorf("write dump %s: %w", w.path, err)
		}
		texts = append(texts, append(text, '\n'))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return w.failed
	}
	var out []byte
	for _, text := range texts {
		if w.packer == nil {
			out = append(out, text...)
		} else {
			out = w.packer.EncodeAll(text, out)
		}
	}
	n, err := w.f.Write(out)
	if err != nil {
		// Remove a partial line, for example on a full disk. If that fails too,
		// readers drop it as an incomplete last line.
		if n > 0 {
			err = errors.Join(err, w.f.Truncate(w.end))
		}
		w.failed = fmt.Errorf("write dump: %w", err)
		return w.failed
	}
	w.end += int64(n)
	return nil
}

// Close syncs and closes the dump.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.f.Sync()
	if errors.Is(err, syscall.EINVAL) { // a pipe cannot be synced
		err = nil
	}
	if err = errors.Join(err, w.f.Close()); err != nil {
		return fmt.Errorf("close dump: %w", err)
	}
	return nil
}

package dump

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/crash"
)

var atRename = crash.New("dump/rename") // a whole dump is written, but has no name yet

// Writer appends episodes to a dump. Its methods may be called by many
// goroutines; the lines of one Write are written by one call and never
// interleaved with others. In a compressed dump every line is a frame of its
// own, so that a process that dies costs no more than in a plain one.
type Writer struct {
	path    string
	weights string

	mu     sync.Mutex // guards what follows
	f      file
	packer *zstd.Encoder // nil in a plain dump
	end    int64         // of the file's whole lines
	failed error         // a write failed: what comes later would stand behind a hole
}

// file is what a dump is written to.
type file interface {
	io.Writer
	Truncate(size int64) error
	Sync() error
	Close() error
}

// compressedName reports whether a dump of that name is to be compressed.
func compressedName(path string) bool { return strings.HasSuffix(strings.ToLower(path), ".zst") }

// Create starts a new dump, replacing a file of that name. A name that
// ends in .zst makes it a compressed one.
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

// openToWrite opens a dump that no other process writes to. One that another
// process has put a new file in the place of, since it was opened, is opened
// again: what is written to it would be nowhere.
func openToWrite(path string) (*os.File, error) {
	const tries = 100
	for range tries {
		f, err := openLocked(path)
		if err != nil {
			return nil, err
		}
		opened, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		named, err := os.Stat(path)
		if err == nil && os.SameFile(opened, named) {
			return f, nil
		}
		if err = errors.Join(err, f.Close()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: other processes keep replacing it: choose another file", path)
}

func openLocked(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) { // file systems without locks do without
		_ = f.Close()
		return nil, fmt.Errorf("%s: another process is writing to it: wait for it or choose another file", path)
	}
	return f, nil
}

// WriteFile writes a whole dump: the file appears complete, in place of one of
// that name, or not at all.
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
	return w, w.lines(h.marked())
}

func newWriter(f file, path, weights string, compress bool, end int64) (*Writer, error) {
	w := &Writer{path: path, weights: weights, f: f, end: end}
	if compress {
		var err error
		// EncodeAll starts no goroutine, and a frame says how long its text is.
		if w.packer, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true)); err != nil {
			return nil, fmt.Errorf("compress %s: %w", path, err)
		}
	}
	return w, nil
}

// Write appends episodes, all of them or none.
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
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false) // actions are full of < and >; people read this
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("write dump %s: %w", w.path, err)
		}
		texts = append(texts, buf.Bytes())
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
		// What was written of it, of a disk that is full say, must not stand
		// between two lines; if it cannot be taken back, readers drop it.
		if n > 0 {
			err = errors.Join(err, w.f.Truncate(w.end))
		}
		w.failed = fmt.Errorf("write dump: %w", err)
		return w.failed
	}
	w.end += int64(n)
	return nil
}

// Close makes the dump durable and closes it.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.f.Sync()
	if errors.Is(err, syscall.EINVAL) { // a pipe is never durable
		err = nil
	}
	if err = errors.Join(err, w.f.Close()); err != nil {
		return fmt.Errorf("close dump: %w", err)
	}
	return nil
}

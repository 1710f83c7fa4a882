package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/openmanus/openmanus/data/crash"
)

var atDumpRename = crash.New("dump/rename") // a whole dump is written, but has no name yet

// DumpWriter appends episodes to a dump. Its methods may be called by many
// goroutines; a line is written by one call and never interleaved.
type DumpWriter struct {
	path    string
	weights string

	mu sync.Mutex // guards f
	f  *os.File
}

// CreateDump starts a new dump, replacing a file of that name.
func CreateDump(path string, h DumpHeader) (*DumpWriter, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create dump: %w", err)
	}
	return startDump(f, path, h)
}

// WriteDump writes a whole dump: the file appears complete, in place of one of
// that name, or not at all.
func WriteDump(path string, h DumpHeader, episodes []*Episode) (err error) {
	temp := path + ".tmp"
	w, err := CreateDump(temp, h)
	if err != nil {
		return err
	}
	for _, e := range episodes {
		if err = w.Write(e); err != nil {
			break
		}
	}
	if err = errors.Join(err, w.Close()); err == nil {
		atDumpRename.Pass()
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

func startDump(f *os.File, path string, h DumpHeader) (*DumpWriter, error) {
	h.Format, h.Version = DumpFormat, DumpVersion
	w := &DumpWriter{path: path, weights: h.Weights, f: f}
	if err := w.line(h); err != nil {
		_ = f.Close()
		return nil, err
	}
	return w, nil
}

// AppendDump goes on with a dump, or starts one where there is none. A torn
// last line is cut off first. The weights must be those of the dump's header.
func AppendDump(path string, h DumpHeader) (*DumpWriter, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("append to dump: %w", err)
	}
	fail := func(err error) (*DumpWriter, error) {
		_ = f.Close()
		return nil, fmt.Errorf("append to dump %s: %w", path, err)
	}
	end, err := lastLineEnd(f)
	if err != nil {
		return fail(err)
	}
	if end > 0 { // never cut a file that is not a dump
		lines, err := NewLineReader(f)
		if err != nil {
			return fail(err)
		}
		defer lines.Close()
		if lines.Compressed() { // whose lines do not end where the file has a newline
			return fail(errors.New("it is compressed: choose another file"))
		}
		r := &DumpReader{path: path, lines: lines}
		if err := r.readHeader(); err != nil {
			return fail(err)
		}
		if r.header.Weights != h.Weights {
			return fail(fmt.Errorf("it holds episodes of the weights %q, not %q: choose another file", r.header.Weights, h.Weights))
		}
	} else if err := checkTornHeader(f); err != nil {
		return fail(err)
	}
	if err := f.Truncate(end); err != nil {
		return fail(err)
	}
	if end == 0 {
		return startDump(f, path, h)
	}
	return &DumpWriter{path: path, weights: h.Weights, f: f}, nil
}

// checkTornHeader verifies that a file without a whole line is the beginning of
// a dump, or empty.
func checkTornHeader(f *os.File) error {
	const begin = `{"format":"` + DumpFormat + `"`
	buf := make([]byte, len(begin))
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !strings.HasPrefix(begin, string(buf[:n])) {
		return errors.New("it is not a dump: choose another file")
	}
	return nil
}

// lastLineEnd returns the offset after the last newline, 0 if there is none.
func lastLineEnd(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 1<<16)
	for end := st.Size(); end > 0; {
		n := min(int64(len(buf)), end)
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return 0, nil
}

// Write appends an episode.
func (w *DumpWriter) Write(e *Episode) error { return w.line(newDumpLine(e, w.weights)) }

func (w *DumpWriter) line(v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // actions are full of < and >; people read this
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write dump %s: %w", w.path, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.f.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("write dump: %w", err)
	}
	return nil
}

// Close makes the dump durable and closes it.
func (w *DumpWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := errors.Join(w.f.Sync(), w.f.Close()); err != nil {
		return fmt.Errorf("close dump: %w", err)
	}
	return nil
}

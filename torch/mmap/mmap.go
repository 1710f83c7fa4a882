// Package mmap maps whole files for reading. Its functions are safe for concurrent
// use; Close must come after the last use of a file's bytes.
package mmap

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
)

// File is a regular file, mapped for reading.
type File struct {
	path   string
	data   []byte // nil for an empty file
	closed atomic.Bool
}

// Open maps a file. The file must not be truncated while it is mapped: reading
// a lost page kills the process.
func Open(path string) (*File, error) {
	// Stat comes before Open, because opening a named pipe would wait for a writer.
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err = f.Stat(); err != nil {
		return nil, err
	}
	size := st.Size()
	if size == 0 {
		return &File{path: path}, nil
	}
	m, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &File{path: path, data: m}, nil
}

// Path returns the path that was opened.
func (f *File) Path() string { return f.path }

// Bytes returns the content of the file, or os.ErrClosed after Close. The bytes
// must not be written to or used after Close.
func (f *File) Bytes() ([]byte, error) {
	if f.closed.Load() {
		return nil, fmt.Errorf("%s: %w", f.path, os.ErrClosed)
	}
	return f.data, nil
}

// Close unmaps the file. A second Close does nothing.
func (f *File) Close() error {
	if f.closed.Swap(true) || f.data == nil {
		return nil
	}
	if err := syscall.Munmap(f.data); err != nil {
		return fmt.Errorf("unmap %s: %w", f.path, err)
	}
	return nil
}

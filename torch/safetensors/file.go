package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/openmanus/openmanus/torch/mmap"
)

// ErrClosed is returned by every method of a File or Folder after Close.
var ErrClosed = errors.New("safetensors: already closed")

// File is one safetensors file, mapped for reading.
type File struct {
	path   string
	mapped []byte
	data   []byte // the part of mapped after the header
	header header
	closed atomic.Bool
}

// Open maps a file and checks its header. The file must not be truncated while it
// is open: reading a lost page kills the process.
func Open(path string) (*File, error) {
	m, err := mmap.File(path)
	if err != nil {
		return nil, fmt.Errorf("open safetensors: %w", err)
	}
	f := &File{path: path, mapped: m}
	f.header, f.data, err = parse(m)
	if err != nil {
		if m != nil {
			_ = syscall.Munmap(m)
		}
		return nil, fmt.Errorf("open safetensors %s: %w", path, err)
	}
	return f, nil
}

// parse splits a whole file into its header and its data.
func parse(m []byte) (header, []byte, error) {
	if len(m) < lengthBytes {
		return header{}, nil, fmt.Errorf("%d bytes are not enough for a safetensors file", len(m))
	}
	n := binary.LittleEndian.Uint64(m)
	if n > maxHeader {
		return header{}, nil, fmt.Errorf("header length %d is over the limit of %d: not a safetensors file", n, maxHeader)
	}
	if n > uint64(len(m)-lengthBytes) {
		return header{}, nil, fmt.Errorf("header length %d is beyond the end of the file (%d bytes)", n, len(m))
	}
	data := m[lengthBytes+n:]
	h, err := parseHeader(m[lengthBytes:lengthBytes+n], int64(len(data)))
	return h, data, err
}

// Path returns the path that was opened.
func (f *File) Path() string { return f.path }

// Names returns the tensor names in the order of their data.
func (f *File) Names() []string { return slices.Clone(f.header.names) }

// Metadata returns a copy of the header's free-form strings.
func (f *File) Metadata() map[string]string { return maps.Clone(f.header.metadata) }

// Info describes the named tensor; ok is false if the file has none.
func (f *File) Info(name string) (info Info, ok bool) {
	e, ok := f.header.tensors[name]
	return Info{DType: e.DType, Shape: slices.Clone(e.Shape)}, ok
}

// Tensor returns a tensor and a view of its bytes (little-endian, row-major).
// The view is part of the mapped file. It must not be written to or used after
// Close, and its alignment depends on the writer of the file.
func (f *File) Tensor(name string) (Info, []byte, error) {
	if f.closed.Load() {
		return Info{}, nil, ErrClosed
	}
	info, ok := f.Info(name)
	if !ok {
		return Info{}, nil, fmt.Errorf("safetensors %s: no tensor %q", f.path, name)
	}
	e := f.header.tensors[name]
	return info, f.data[e.begin:e.end:e.end], nil
}

// Close unmaps the file. A second Close does nothing.
func (f *File) Close() error {
	if f.closed.Swap(true) || f.mapped == nil {
		return nil
	}
	if err := syscall.Munmap(f.mapped); err != nil {
		return fmt.Errorf("unmap %s: %w", f.path, err)
	}
	return nil
}

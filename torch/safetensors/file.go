package safetensors

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/openmanus/openmanus/torch/mmap"
)

// File is one safetensors file, mapped for reading.
type File struct {
	*mmap.File
	header header
}

// Open maps a file and checks its header.
func Open(path string) (*File, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open safetensors: %w", err)
	}
	data, err := m.Bytes()
	f := &File{File: m}
	if err == nil {
		f.header, err = parse(data)
	}
	if err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("open safetensors %s: %w", path, err)
	}
	return f, nil
}

// parse reads the header of a whole file.
func parse(m []byte) (header, error) {
	if len(m) < lengthBytes {
		return header{}, fmt.Errorf("%d bytes are not enough for a safetensors file", len(m))
	}
	n := binary.LittleEndian.Uint64(m)
	if n > maxHeader {
		return header{}, fmt.Errorf("header length %d is over the limit of %d: not a safetensors file", n, maxHeader)
	}
	if n > uint64(len(m)-lengthBytes) {
		return header{}, fmt.Errorf("header length %d is beyond the end of the file (%d bytes)", n, len(m))
	}
	dataAt := lengthBytes + int(n)
	h, err := parseHeader(m[lengthBytes:dataAt], int64(len(m)-dataAt))
	h.dataAt = int64(dataAt)
	return h, err
}

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
	m, err := f.Bytes()
	if err != nil {
		return Info{}, nil, err
	}
	info, ok := f.Info(name)
	if !ok {
		return Info{}, nil, fmt.Errorf("safetensors %s: no tensor %q", f.Path(), name)
	}
	e, at := f.header.tensors[name], f.header.dataAt
	return info, m[at+e.begin : at+e.end : at+e.end], nil
}

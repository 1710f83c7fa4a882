package gguf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/openmanus/openmanus/torch/mmap"
)

const (
	magic            = "GGUF"
	defaultAlignment = 32
	maxAlignment     = 1 << 20
	maxDims          = 4
	maxKey           = 1<<16 - 1
	alignmentKey     = "general.alignment"

	// The minimal sizes in bytes of a key-value pair and of a tensor's entry. The file
	// size divided by them bounds the counts of pairs and of tensors in a header.
	minPair   = 8 + 4 + 1
	minTensor = 8 + 4 + 8 + 4 + 8

	// These limits are far above the numbers of metadata keys and tensors of real models.
	maxPairs   = 1 << 16
	maxTensors = 1 << 18
)

// File is a GGUF file, mapped for reading.
type File struct {
	*mmap.File
	meta    Metadata
	tensors map[string]tensor
	names   []string
}

type tensor struct {
	Info
	offset, size int64 // position in the file and length, in bytes
}

// Open maps a file and checks its header.
func Open(path string) (*File, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open gguf: %w", err)
	}
	data, err := m.Bytes()
	f := &File{}
	if err == nil {
		f, err = parse(data)
	}
	if err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("open gguf %s: %w", path, err)
	}
	f.File = m
	return f, nil
}

func parse(m []byte) (*File, error) {
	c := &cursor{b: m}
	if string(c.take(4)) != magic {
		return nil, errors.New("not a GGUF file (it does not begin with \"GGUF\")")
	}
	version := c.u32()
	f := &File{meta: Metadata{values: map[string]any{}}, tensors: map[string]tensor{}}
	switch {
	case c.err != nil:
		return nil, c.err
	case version == 2 || version == 3:
	case version&0xffff == 0:
		return nil, errors.New("a big-endian GGUF file is not supported: convert it to little-endian")
	default:
		return nil, fmt.Errorf("GGUF version %d is not supported (supported: 2 and 3)", version)
	}
	tensors, pairs := c.u64(), c.u64()
	if c.err != nil {
		return nil, c.err
	}
	if pairs > c.remaining()/minPair || tensors > c.remaining()/minTensor {
		return nil, fmt.Errorf("%d metadata keys and %d tensors do not fit into the file", pairs, tensors)
	}
	if pairs > maxPairs || tensors > maxTensors {
		return nil, fmt.Errorf("%d metadata keys and %d tensors in the file, want at most %d and %d", pairs, tensors, maxPairs, maxTensors)
	}
	if err := f.readMetadata(c, pairs); err != nil {
		return nil, err
	}
	alignment, err := f.alignment()
	if err != nil {
		return nil, err
	}
	if err := f.readTensors(c, tensors, alignment); err != nil {
		return nil, err
	}
	return f, f.checkLayout(c, alignment)
}

func (f *File) readMetadata(c *cursor, n uint64) error {
	for range n {
		key := c.name()
		kind := c.u32()
		v := c.value(kind)
		if c.err != nil {
			return fmt.Errorf("metadata %.80q: %w", key, c.err)
		}
		if f.meta.Has(key) {
			return fmt.Errorf("metadata %.80q: duplicate key", key)
		}
		f.meta.keys = append(f.meta.keys, key)
		f.meta.values[key] = v
	}
	return nil
}

// alignment returns the alignment of the tensors' data in bytes.
func (f *File) alignment() (int64, error) {
	a, err := f.meta.Int(alignmentKey)
	if errors.Is(err, ErrNoKey) {
		return defaultAlignment, nil
	}
	if err != nil {
		return 0, err
	}
	if a < 1 || a > maxAlignment || a&(a-1) != 0 {
		return 0, fmt.Errorf("metadata %q: %d is not a power of two up to %d", alignmentKey, a, maxAlignment)
	}
	return int64(a), nil
}

// readTensors reads the tensors' entries. Offsets stay relative to the data,
// which begins after the last entry.
func (f *File) readTensors(c *cursor, n uint64, alignment int64) error {
	for range n {
		name := c.name()
		dims := c.u32()
		if dims == 0 || dims > maxDims {
			c.fail("tensor %.80q has %d dimensions (1 to %d are allowed)", name, dims, maxDims)
		}
		if c.err != nil {
			return c.err
		}
		t := tensor{Info: Info{Shape: make([]int, dims)}}
		for i := range t.Shape {
			d := c.u64()
			if int64(d) <= 0 {
				c.fail("tensor %.80q: dimension %d is out of range", name, d)
			}
			t.Shape[len(t.Shape)-1-i] = int(d)
		}
		t.Type = Type(c.u32())
		offset := c.u64()
		if c.err != nil {
			return c.err
		}
		if offset > uint64(len(c.b)) || offset%uint64(alignment) != 0 {
			return fmt.Errorf("tensor %.80q: offset %d is beyond the end of the file or not a multiple of %d", name, offset, alignment)
		}
		t.offset = int64(offset)
		var err error
		if t.size, err = t.byteSize(); err != nil {
			return fmt.Errorf("tensor %.80q: %w", name, err)
		}
		if _, dup := f.tensors[name]; dup {
			return fmt.Errorf("tensor %.80q: duplicate name", name)
		}
		f.tensors[name] = t
		f.names = append(f.names, name)
	}
	return nil
}

// checkLayout makes offsets absolute and checks that the tensors are inside the
// file and do not overlap. Gaps are padding.
func (f *File) checkLayout(c *cursor, alignment int64) error {
	start := (int64(c.off) + alignment - 1) / alignment * alignment
	byOffset := slices.Clone(f.names)
	slices.SortFunc(byOffset, func(a, b string) int {
		return cmp.Compare(f.tensors[a].offset, f.tensors[b].offset)
	})
	end := start
	for _, name := range byOffset {
		t := f.tensors[name]
		t.offset += start // no overflow: t.offset and start are at most slightly larger than the file
		if t.offset < end {
			return fmt.Errorf("tensor %.80q: its data overlap the data of another tensor", name)
		}
		if t.size > int64(len(c.b))-t.offset {
			return fmt.Errorf("tensor %.80q: its data end beyond the end of the file (is it truncated?)", name)
		}
		end = t.offset + t.size
		f.tensors[name] = t
	}
	return nil
}

// Metadata returns the file's metadata, which stays valid after Close.
func (f *File) Metadata() *Metadata { return &f.meta }

// Names returns the tensor names in file order.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Info returns the Info of the named tensor; ok is false if the file has no such tensor.
func (f *File) Info(name string) (info Info, ok bool) {
	t, ok := f.tensors[name]
	return Info{Type: t.Type, Shape: slices.Clone(t.Shape)}, ok
}

// Tensor returns a tensor's Info and a view of its stored bytes, which is part of the
// mapped file. The view must not be written to, and must not be used after Close.
func (f *File) Tensor(name string) (Info, []byte, error) {
	m, err := f.Bytes()
	if err != nil {
		return Info{}, nil, err
	}
	info, ok := f.Info(name)
	if !ok {
		return Info{}, nil, fmt.Errorf("gguf %s: no tensor %q", f.Path(), name)
	}
	t := f.tensors[name]
	return info, m[t.offset : t.offset+t.size : t.offset+t.size], nil
}

// Float32s returns a tensor's elements, dequantised, in row-major order.
func (f *File) Float32s(name string) ([]float32, error) {
	info, raw, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	out := make([]float32, info.Elements())
	if err := Dequantize(info.Type, out, raw); err != nil {
		return nil, fmt.Errorf("gguf %s: tensor %q: %w", f.Path(), name, err)
	}
	return out, nil
}

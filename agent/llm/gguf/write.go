package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
)

// Pair is one key of the metadata with its value. The Go type of the value decides
// its GGUF type; Metadata lists the types.
type Pair struct {
	Key   string
	Value any
}

// Spec describes a tensor to write.
type Spec struct {
	Name string
	Info
}

// Write writes a little-endian GGUF file of version 3 with the default alignment.
// It calls data(i) for the stored bytes of tensors[i] just before it writes them;
// the next call of data may reuse the memory.
func Write(w io.Writer, meta []Pair, tensors []Spec, data func(i int) ([]byte, error)) error {
	if len(meta) > maxPairs || len(tensors) > maxTensors {
		return fmt.Errorf("write gguf: %d metadata keys and %d tensors, at most %d and %d are allowed", len(meta), len(tensors), maxPairs, maxTensors)
	}
	var h header
	h.bytes = append(h.bytes, magic...)
	h.u32(3)
	h.u64(uint64(len(tensors)))
	h.u64(uint64(len(meta)))
	if err := errors.Join(h.pairs(meta), h.tensors(tensors)); err != nil {
		return fmt.Errorf("write gguf: %w", err)
	}
	h.bytes = append(h.bytes, make([]byte, padding(int64(len(h.bytes))))...)
	if _, err := w.Write(h.bytes); err != nil {
		return fmt.Errorf("write gguf: %w", err)
	}
	for i, t := range tensors {
		b, err := data(i)
		if err == nil && int64(len(b)) != h.sizes[i] {
			err = fmt.Errorf("got %d bytes, %s%v takes %d", len(b), t.Type, t.Shape, h.sizes[i])
		}
		if err == nil {
			_, err = w.Write(b)
		}
		if err == nil {
			_, err = w.Write(make([]byte, padding(h.sizes[i])))
		}
		if err != nil {
			return fmt.Errorf("write gguf: tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// padding returns the number of bytes from offset n to the next multiple of the alignment.
func padding(n int64) int64 { return (defaultAlignment - n%defaultAlignment) % defaultAlignment }

// header is the part of a file before the tensors' data.
type header struct {
	bytes []byte
	sizes []int64 // size of each tensor's data in bytes
}

func (h *header) u32(v uint32) { h.bytes = binary.LittleEndian.AppendUint32(h.bytes, v) }

func (h *header) u64(v uint64) { h.bytes = binary.LittleEndian.AppendUint64(h.bytes, v) }

func (h *header) str(s string) {
	h.u64(uint64(len(s)))
	h.bytes = append(h.bytes, s...)
}

func (h *header) pairs(meta []Pair) error {
	seen := map[string]bool{}
	for _, p := range meta {
		if p.Key == "" || len(p.Key) > maxKey || seen[p.Key] {
			return fmt.Errorf("metadata key %.80q is empty, too long or given twice", p.Key)
		}
		seen[p.Key] = true
		h.str(p.Key)
		if err := h.value(reflect.ValueOf(p.Value)); err != nil {
			return fmt.Errorf("metadata %q: %w", p.Key, err)
		}
	}
	return nil
}

// valueKinds holds the type number of each Go type of a value.
var valueKinds = map[reflect.Kind]uint32{
	reflect.Uint8: valueUint8, reflect.Int8: valueInt8, reflect.Uint16: valueUint16, reflect.Int16: valueInt16,
	reflect.Uint32: valueUint32, reflect.Int32: valueInt32, reflect.Uint64: valueUint64, reflect.Int64: valueInt64,
	reflect.Float32: valueFloat32, reflect.Float64: valueFloat64, reflect.Bool: valueBool, reflect.String: valueString,
}

// value appends the type number of v and v itself.
func (h *header) value(v reflect.Value) error {
	if !v.IsValid() {
		return errors.New("the value is nil")
	}
	elem := v.Type()
	if v.Kind() == reflect.Slice {
		elem = elem.Elem()
	}
	kind, ok := valueKinds[elem.Kind()]
	if !ok {
		return fmt.Errorf("a %s is not a GGUF value", v.Type())
	}
	if v.Kind() != reflect.Slice {
		h.u32(kind)
		return h.plain(v)
	}
	h.u32(valueArray)
	h.u32(kind)
	h.u64(uint64(v.Len()))
	for i := range v.Len() {
		if err := h.plain(v.Index(i)); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

// plain appends a value that is not an array.
func (h *header) plain(v reflect.Value) (err error) {
	if v.Kind() == reflect.String {
		h.str(v.String())
		return nil
	}
	h.bytes, err = binary.Append(h.bytes, binary.LittleEndian, v.Interface())
	return err
}

// tensors appends the tensors' entries and sets h.sizes.
func (h *header) tensors(tensors []Spec) error {
	seen := map[string]bool{}
	var offset int64
	for _, t := range tensors {
		if t.Name == "" || len(t.Name) > maxKey || seen[t.Name] {
			return fmt.Errorf("tensor name %.80q is empty, too long or given twice", t.Name)
		}
		seen[t.Name] = true
		if len(t.Shape) < 1 || len(t.Shape) > maxDims {
			return fmt.Errorf("tensor %q has %d dimensions (1 to %d are allowed)", t.Name, len(t.Shape), maxDims)
		}
		for _, d := range t.Shape {
			if d < 1 {
				return fmt.Errorf("tensor %q: dimension %d is out of range", t.Name, d)
			}
		}
		size, err := t.byteSize()
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if size > math.MaxInt64-offset-defaultAlignment {
			return errors.New("the tensors are too large for one file")
		}
		h.str(t.Name)
		h.u32(uint32(len(t.Shape)))
		for i := range t.Shape {
			h.u64(uint64(t.Shape[len(t.Shape)-1-i]))
		}
		h.u32(uint32(t.Type))
		h.u64(uint64(offset))
		h.sizes = append(h.sizes, size)
		offset += size + padding(size)
	}
	return nil
}

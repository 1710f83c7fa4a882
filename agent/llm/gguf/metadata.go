package gguf

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrNoKey is wrapped by the getters' errors where a key is absent, so that a
// caller can tell an optional key from a wrong one.
var ErrNoKey = errors.New("no such key")

// Metadata is the key-value part of a file. Values have the Go type of their
// GGUF type: uint8 to uint64, int8 to int64, float32, float64, bool, string,
// or a slice of one of them. Slices belong to the Metadata.
type Metadata struct {
	keys   []string
	values map[string]any
}

// Keys returns all keys in file order.
func (m *Metadata) Keys() []string { return slices.Clone(m.keys) }

// Has reports whether the key is present.
func (m *Metadata) Has(key string) bool {
	_, ok := m.values[key]
	return ok
}

// String returns a string value.
func (m *Metadata) String(key string) (string, error) { return get[string](m, key) }

// Bool returns a bool value.
func (m *Metadata) Bool(key string) (bool, error) { return get[bool](m, key) }

// Strings returns a value that is an array of strings.
func (m *Metadata) Strings(key string) ([]string, error) { return get[[]string](m, key) }

// Float32 returns a float value; a float64 is rounded.
func (m *Metadata) Float32(key string) (float32, error) {
	if v, ok := m.values[key].(float64); ok {
		return float32(v), nil
	}
	return get[float32](m, key)
}

// Int returns a value of any integer type: writers do not agree on the width
// and sign of, say, a layer count.
func (m *Metadata) Int(key string) (int, error) {
	v, ok := m.values[key]
	if !ok {
		return 0, m.missing(key)
	}
	n, ok := asInt64(v)
	if !ok || int64(int(n)) != n {
		return 0, fmt.Errorf("gguf metadata %q: %v (%T) is not an integer in range", key, v, v)
	}
	return int(n), nil
}

// Uint32 returns a value of any integer type that fits into 32 bits unsigned.
func (m *Metadata) Uint32(key string) (uint32, error) {
	n, err := m.Int(key)
	if err == nil && (n < 0 || int64(n) > math.MaxUint32) {
		err = fmt.Errorf("gguf metadata %q: %d is not in the range of uint32", key, n)
	}
	if err != nil {
		return 0, err
	}
	return uint32(n), nil
}

// Int32s returns a value that is an array of any integer type, all of whose
// elements fit into int32.
func (m *Metadata) Int32s(key string) ([]int32, error) {
	v, ok := m.values[key]
	if !ok {
		return nil, m.missing(key)
	}
	switch a := v.(type) {
	case []int32:
		return a, nil
	case []uint32:
		return narrow(key, a)
	case []int64:
		return narrow(key, a)
	case []uint64:
		return narrow(key, a)
	case []int16:
		return narrow(key, a)
	case []uint16:
		return narrow(key, a)
	case []int8:
		return narrow(key, a)
	case []uint8:
		return narrow(key, a)
	}
	return nil, fmt.Errorf("gguf metadata %q: is a %T, not an array of integers", key, v)
}

func (m *Metadata) missing(key string) error {
	return fmt.Errorf("gguf metadata %q: %w", key, ErrNoKey)
}

func get[T any](m *Metadata, key string) (T, error) {
	v, ok := m.values[key]
	t, is := v.(T)
	switch {
	case !ok:
		return t, m.missing(key)
	case !is:
		return t, fmt.Errorf("gguf metadata %q: is a %T, not a %T", key, v, t)
	}
	return t, nil
}

func asInt64(v any) (int64, bool) {
	switch n := v.(type) {
	case uint8:
		return int64(n), true
	case int8:
		return int64(n), true
	case uint16:
		return int64(n), true
	case int16:
		return int64(n), true
	case uint32:
		return int64(n), true
	case int32:
		return int64(n), true
	case uint64:
		return int64(n), n <= math.MaxInt64
	case int64:
		return n, true
	}
	return 0, false
}

func narrow[T uint8 | int8 | uint16 | int16 | uint32 | uint64 | int64](key string, a []T) ([]int32, error) {
	out := make([]int32, len(a))
	for i, v := range a {
		out[i] = int32(v)
		if T(out[i]) != v || (out[i] < 0) != (v < 0) {
			return nil, fmt.Errorf("gguf metadata %q: element %d is %d, which does not fit into int32", key, i, v)
		}
	}
	return out, nil
}

// The value types of the format.
const (
	valueUint8 uint32 = iota
	valueInt8
	valueUint16
	valueInt16
	valueUint32
	valueInt32
	valueFloat32
	valueBool
	valueString
	valueArray
	valueUint64
	valueInt64
	valueFloat64
)

// value reads one metadata value.
func (c *cursor) value(kind uint32) any {
	switch kind {
	case valueUint8:
		return c.u8()
	case valueInt8:
		return int8(c.u8())
	case valueUint16:
		return c.u16()
	case valueInt16:
		return int16(c.u16())
	case valueUint32:
		return c.u32()
	case valueInt32:
		return int32(c.u32())
	case valueFloat32:
		return c.f32()
	case valueBool:
		return c.bool()
	case valueString:
		return c.str()
	case valueUint64:
		return c.u64()
	case valueInt64:
		return int64(c.u64())
	case valueFloat64:
		return c.f64()
	case valueArray:
		return c.array()
	}
	c.fail("unknown metadata value type %d", kind)
	return nil
}

// array reads an array. Arrays of arrays are in the format's grammar but no
// writer makes them, and llama.cpp refuses them too.
func (c *cursor) array() any {
	kind, n := c.u32(), c.u64()
	switch kind {
	case valueUint8:
		return list(c, n, 1, c.u8)
	case valueInt8:
		return list(c, n, 1, func() int8 { return int8(c.u8()) })
	case valueUint16:
		return list(c, n, 2, c.u16)
	case valueInt16:
		return list(c, n, 2, func() int16 { return int16(c.u16()) })
	case valueUint32:
		return list(c, n, 4, c.u32)
	case valueInt32:
		return list(c, n, 4, func() int32 { return int32(c.u32()) })
	case valueFloat32:
		return list(c, n, 4, c.f32)
	case valueBool:
		return list(c, n, 1, c.bool)
	case valueString:
		return list(c, n, 8, c.str)
	case valueUint64:
		return list(c, n, 8, c.u64)
	case valueInt64:
		return list(c, n, 8, func() int64 { return int64(c.u64()) })
	case valueFloat64:
		return list(c, n, 8, c.f64)
	case valueArray:
		c.fail("an array of arrays is not supported")
	default:
		c.fail("unknown metadata array type %d", kind)
	}
	return nil
}

// list reads n elements of at least size bytes each. The count is checked
// against the bytes left before anything is allocated.
func list[T any](c *cursor, n, size uint64, next func() T) []T {
	if c.err != nil {
		return nil
	}
	if n > c.remaining()/size {
		c.fail("an array of %d elements does not fit into the %d bytes left", n, c.remaining())
		return nil
	}
	out := make([]T, n)
	for i := range out {
		out[i] = next()
		if c.err != nil {
			return nil
		}
	}
	return out
}

package gguf

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
)

// ErrNoKey is the cause of a getter's error if the key is absent, so that
// callers can distinguish a missing optional key from an invalid value.
var ErrNoKey = errors.New("no such key")

// Metadata is the key-value part of a file. A value has the Go type of its GGUF
// type: uint8 to uint64, int8 to int64, float32, float64, bool, string, or a
// slice of one of these types. Callers must not change slices.
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

// Int returns a value of any integer type. The type of a key, such as the layer
// count, differs between the programs that write GGUF files.
func (m *Metadata) Int(key string) (int, error) {
	v, ok := m.values[key]
	if !ok {
		return 0, m.missing(key)
	}
	n, ok := asInt64(reflect.ValueOf(v))
	if !ok || int64(int(n)) != n {
		return 0, fmt.Errorf("gguf metadata %q: %v (%T) is not an integer in range", key, v, v)
	}
	return int(n), nil
}

// Int32s returns a value that is an array of any integer type. It fails if an
// element does not fit into int32.
func (m *Metadata) Int32s(key string) ([]int32, error) {
	v, ok := m.values[key]
	if !ok {
		return nil, m.missing(key)
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice || !isInteger(list.Type().Elem().Kind()) {
		return nil, fmt.Errorf("gguf metadata %q: is a %T, not an array of integers", key, v)
	}
	out := make([]int32, list.Len())
	for i := range out {
		n, ok := asInt64(list.Index(i))
		if out[i] = int32(n); !ok || int64(out[i]) != n {
			return nil, fmt.Errorf("gguf metadata %q: element %d is %v, which does not fit into int32", key, i, list.Index(i))
		}
	}
	return out, nil
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

func isInteger(k reflect.Kind) bool { return reflect.Int <= k && k <= reflect.Uint64 }

// asInt64 returns an integer of any type; ok is false for other values and for integers above the range of int64.
func asInt64(v reflect.Value) (n int64, ok bool) {
	switch {
	case v.CanInt():
		return v.Int(), true
	case v.CanUint():
		return int64(v.Uint()), v.Uint() <= math.MaxInt64
	}
	return 0, false
}

// valueType reads the values of one type of the format.
type valueType struct {
	one  func(c *cursor) any
	many func(c *cursor, n uint64) any
}

// values returns the valueType of a type whose values take at least size bytes each.
func values[T any](size uint64, read func(*cursor) T) valueType {
	return valueType{
		one:  func(c *cursor) any { return read(c) },
		many: func(c *cursor, n uint64) any { return list(c, n, size, read) },
	}
}

// The type numbers of the format, which index valueTypes.
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

var valueTypes = [...]valueType{
	valueUint8:   values(1, number[uint8]),
	valueInt8:    values(1, number[int8]),
	valueUint16:  values(2, number[uint16]),
	valueInt16:   values(2, number[int16]),
	valueUint32:  values(4, number[uint32]),
	valueInt32:   values(4, number[int32]),
	valueFloat32: values(4, number[float32]),
	valueBool:    values(1, (*cursor).bool),
	valueString:  values(8, (*cursor).str),
	valueUint64:  values(8, number[uint64]),
	valueInt64:   values(8, number[int64]),
	valueFloat64: values(8, number[float64]),
}

// value reads one metadata value.
func (c *cursor) value(kind uint32) any {
	switch {
	case kind == valueArray:
		return c.array()
	case kind < uint32(len(valueTypes)):
		return valueTypes[kind].one(c)
	}
	c.fail("unknown metadata value type %d", kind)
	return nil
}

// array reads an array. The format allows arrays of arrays, but no writer
// makes nested arrays and llama.cpp refuses them.
func (c *cursor) array() any {
	kind, n := c.u32(), c.u64()
	switch {
	case kind == valueArray:
		c.fail("an array of arrays is not supported")
	case kind < uint32(len(valueTypes)):
		return valueTypes[kind].many(c, n)
	default:
		c.fail("unknown metadata array type %d", kind)
	}
	return nil
}

// list reads n elements of at least size bytes each. It checks n against the
// remaining bytes before it allocates memory.
func list[T any](c *cursor, n, size uint64, read func(*cursor) T) []T {
	if c.err != nil {
		return nil
	}
	if n > c.remaining()/size {
		c.fail("an array of %d elements does not fit into the remaining %d bytes", n, c.remaining())
		return nil
	}
	out := make([]T, n)
	for i := range out {
		out[i] = read(c)
		if c.err != nil {
			return nil
		}
	}
	return out
}

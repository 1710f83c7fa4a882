package gguf

import (
	"encoding/binary"
	"fmt"
)

// cursor reads numbers and strings from a mapped file. The first read past the
// end sets err and every later read returns zero, so callers check err only
// before they use a value as a size, and at the end.
type cursor struct {
	b   []byte
	off int
	err error
}

func (c *cursor) remaining() uint64 { return uint64(len(c.b) - c.off) }

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("at byte %d: %w", c.off, fmt.Errorf(format, args...))
	}
}

// take returns the next n bytes, or nil with err set.
func (c *cursor) take(n uint64) []byte {
	if c.err != nil {
		return nil
	}
	if n > c.remaining() {
		c.fail("%d bytes needed, %d remain in the file (is it truncated?)", n, c.remaining())
		return nil
	}
	b := c.b[c.off : c.off+int(n)]
	c.off += int(n)
	return b
}

// number reads a little-endian number.
func number[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64](c *cursor) (v T) {
	if b := c.take(uint64(binary.Size(v))); b != nil {
		_, _ = binary.Decode(b, binary.LittleEndian, &v) // never fails: b has the size of v
	}
	return v
}

func (c *cursor) u32() uint32 { return number[uint32](c) }

func (c *cursor) u64() uint64 { return number[uint64](c) }

func (c *cursor) bool() bool {
	v := number[uint8](c)
	if v > 1 {
		c.fail("%d is not a bool", v)
	}
	return v == 1
}

// str reads a string and copies it out of the mapping, so that metadata outlives the File.
func (c *cursor) str() string { return string(c.take(c.u64())) }

// name reads a metadata key or a tensor's name.
func (c *cursor) name() string {
	n := c.u64()
	if n > maxKey {
		c.fail("a name of %d bytes is too long", n)
	}
	return string(c.take(n))
}

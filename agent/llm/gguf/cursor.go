package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// cursor reads numbers and strings from a mapped file. The first read past the
// end sets err; every later read returns zero, so err need be asked only
// before a value is used to size something and at the end.
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
		c.fail("%d bytes needed, %d left in the file (is it truncated?)", n, c.remaining())
		return nil
	}
	b := c.b[c.off : c.off+int(n)]
	c.off += int(n)
	return b
}

func (c *cursor) u8() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) f32() float32 { return math.Float32frombits(c.u32()) }
func (c *cursor) f64() float64 { return math.Float64frombits(c.u64()) }

func (c *cursor) bool() bool {
	v := c.u8()
	if v > 1 {
		c.fail("%d is not a bool", v)
	}
	return v == 1
}

// str copies a string out of the mapping, so that metadata outlives the File.
func (c *cursor) str() string { return string(c.take(c.u64())) }

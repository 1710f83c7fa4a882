package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Dequantize turns a tensor's stored bytes into float32. With d the block's
// scale, m its minimum (both float16) and q its integers, the values are
//
//	Q8_0  d q
//	Q4_0  d (q - 8)
//	Q4_1  d q + m
//
// and byte i of a 4-bit block holds element i in its low half and element
// i+16 in its high half (ggml's quants; the `gguf` Python package agrees).
func Dequantize(t Type, dst []float32, raw []byte) error {
	block, ok := blocks[t]
	if !ok {
		return fmt.Errorf("tensor type %s is not supported", t)
	}
	if int64(len(dst))%block.elements != 0 || int64(len(dst))/block.elements*block.bytes != int64(len(raw)) {
		return fmt.Errorf("%d bytes of type %s are not %d elements", len(raw), t, len(dst))
	}
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = float16(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
		}
	case Q8_0:
		for ; len(dst) > 0; dst, raw = dst[blockSize:], raw[block.bytes:] {
			d := float16(binary.LittleEndian.Uint16(raw))
			for i, q := range raw[2 : 2+blockSize] {
				dst[i] = d * float32(int8(q))
			}
		}
	case Q4_0:
		for ; len(dst) > 0; dst, raw = dst[blockSize:], raw[block.bytes:] {
			d := float16(binary.LittleEndian.Uint16(raw))
			for i, q := range raw[2 : 2+blockSize/2] {
				dst[i] = d * float32(int(q&15)-8)
				dst[i+blockSize/2] = d * float32(int(q>>4)-8)
			}
		}
	case Q4_1:
		for ; len(dst) > 0; dst, raw = dst[blockSize:], raw[block.bytes:] {
			d, m := float16(binary.LittleEndian.Uint16(raw)), float16(binary.LittleEndian.Uint16(raw[2:]))
			for i, q := range raw[4 : 4+blockSize/2] {
				// The conversion to float32 prevents a fused multiply-add,
				// which would change the values on some architectures.
				dst[i] = float32(d*float32(q&15)) + m
				dst[i+blockSize/2] = float32(d*float32(q>>4)) + m
			}
		}
	}
	return nil
}

// float16 converts an IEEE half to float32.
func float16(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exponent, fraction := uint32(h>>10)&31, uint32(h)&1023
	switch exponent {
	case 0: // zero or subnormal: fraction × 2^-24, exact in float32
		v := float32(fraction) * 0x1p-24
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31: // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

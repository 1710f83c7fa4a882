package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Quantize stores float32 values as F32, BF16 or Q8_0; Dequantize is its inverse.
// BF16 rounds to the nearest number, ties to even. Q8_0 is ggml's reference method:
// with a the largest absolute value of a block and x its values,
//
//	d = a/127    q = round(x · 1/d)
//
// where 1/d is computed from the float32 d, and d is stored as float16.
func Quantize(t Type, src []float32) ([]byte, error) {
	block, ok := blocks[t]
	if !ok || t != F32 && t != BF16 && t != Q8_0 {
		return nil, fmt.Errorf("quantisation to %s is not supported (supported: F32, BF16, Q8_0)", t)
	}
	n := int64(len(src))
	if n%block.elements != 0 {
		return nil, fmt.Errorf("%d elements do not consist of whole %s blocks of %d", n, t, block.elements)
	}
	out := make([]byte, 0, n/block.elements*block.bytes)
	switch t {
	case F32:
		for _, v := range src {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	case BF16:
		for _, v := range src {
			out = binary.LittleEndian.AppendUint16(out, bfloat16Bits(v))
		}
	case Q8_0:
		for at := 0; at < len(src); at += blockSize {
			var err error
			if out, err = appendQ8(out, src[at:at+blockSize]); err != nil {
				return nil, fmt.Errorf("elements %d to %d: %w", at, at+blockSize-1, err)
			}
		}
	}
	return out, nil
}

// appendQ8 appends one block of Q8_0.
func appendQ8(out []byte, x []float32) ([]byte, error) {
	var largest float32
	for _, v := range x {
		if v != v {
			return nil, errors.New("a value is NaN, which Q8_0 cannot store")
		}
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	d := largest / 127
	scale := float16Bits(d)
	if float16(scale) > math.MaxFloat32 {
		return nil, fmt.Errorf("a value is %g, which is too large for Q8_0", largest)
	}
	out = binary.LittleEndian.AppendUint16(out, scale)
	inverse := 1 / d
	if inverse > math.MaxFloat32 { // d is 0, or so small that its float16 is 0
		inverse = 0
	}
	for _, v := range x {
		q := math.Round(float64(v * inverse))
		out = append(out, byte(int8(max(-127, min(127, q)))))
	}
	return out, nil
}

// bfloat16Bits rounds a float32 to bfloat16.
func bfloat16Bits(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 1<<6 // a quiet NaN: the low bits alone may hold the payload
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// float16Bits rounds a float32 to an IEEE half, ties to even.
func float16Bits(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b >> 16 & 0x8000)
	magnitude := b &^ (1 << 31)
	switch {
	case magnitude > 0xff<<23: // NaN
		return sign | 0x7e00
	case magnitude >= 0x477ff000: // 65520, the middle between the largest half and 2^16
		return sign | 0x7c00
	case magnitude < 0x38800000: // below 2^-14: subnormal, a multiple of 2^-24
		scaled := float64(math.Float32frombits(magnitude)) * 0x1p24
		return sign | uint16(math.RoundToEven(scaled))
	}
	return sign | uint16((magnitude-(127-15)<<23+0xfff+magnitude>>13&1)>>13)
}

package safetensors

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// DType is the element type of a tensor, as named in the header.
type DType string

// The supported element types.
const (
	F64  DType = "F64"
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I64  DType = "I64"
	I32  DType = "I32"
	I16  DType = "I16"
	I8   DType = "I8"
	U8   DType = "U8"
	Bool DType = "BOOL"
)

var sizes = map[DType]int{F64: 8, F32: 4, F16: 2, BF16: 2, I64: 8, I32: 4, I16: 2, I8: 1, U8: 1, Bool: 1}

// Size returns the bytes one element takes, or 0 for an unknown type.
func (d DType) Size() int { return sizes[d] }

// check returns an error for an unsupported dtype. 8-bit floats are part of the
// format, but their scales are separate tensors, so that reading them as plain
// numbers would be wrong.
func (d DType) check() error {
	if d.Size() > 0 {
		return nil
	}
	switch d {
	case "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F6_E2M3", "F6_E3M2", "F4":
		return fmt.Errorf("dtype %s is not supported: convert the checkpoint to BF16 or F32", string(d))
	case "U16", "U32", "U64", "C64":
		return fmt.Errorf("dtype %s is not supported", string(d))
	}
	return fmt.Errorf("unknown dtype %q", string(d))
}

// Info describes a tensor. A scalar has an empty shape.
type Info struct {
	DType DType
	Shape []int
}

// Equal reports whether two tensors have the same dtype and shape.
func (i Info) Equal(o Info) bool { return i.DType == o.DType && slices.Equal(i.Shape, o.Shape) }

// ByteSize returns the bytes the tensor takes. It fails on an unsupported
// dtype, a negative dimension, or a product that no file can hold.
func (i Info) ByteSize() (int64, error) {
	if err := i.DType.check(); err != nil {
		return 0, err
	}
	if slices.ContainsFunc(i.Shape, func(d int) bool { return d < 0 }) {
		return 0, fmt.Errorf("shape %v has a negative dimension", i.Shape)
	}
	if slices.Contains(i.Shape, 0) { // the other dimensions do not matter then
		return 0, nil
	}
	n := uint64(i.DType.Size())
	for _, d := range i.Shape {
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, fmt.Errorf("shape %v of %s overflows", i.Shape, i.DType)
		}
		n = lo
	}
	return int64(n), nil
}

// Spec is a tensor to be written.
type Spec struct {
	Name string
	Info Info
}

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

// Size returns the size of one element in bytes, or 0 for an unknown type.
func (d DType) Size() int { return sizes[d] }

// Info describes a tensor. A scalar has an empty shape.
type Info struct {
	DType DType
	Shape []int
}

// ByteSize returns the size of the tensor in bytes. It fails on an unsupported
// dtype, a negative dimension, or a product that no file can hold.
func (i Info) ByteSize() (int64, error) {
	// The 8-bit floats of the format are not supported: they need scales from other tensors.
	if i.DType.Size() == 0 {
		return 0, fmt.Errorf("dtype %.80q is not supported: convert the checkpoint to BF16 or F32", string(i.DType))
	}
	if slices.ContainsFunc(i.Shape, func(d int) bool { return d < 0 }) {
		return 0, fmt.Errorf("shape %v has a negative dimension", i.Shape)
	}
	if slices.Contains(i.Shape, 0) { // the tensor is empty, whatever its other dimensions are
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

package gguf

import (
	"fmt"
	"math"
	"math/bits"
)

// Type is the storage type of a tensor. The values are ggml's type numbers.
type Type uint32

// The tensor types that the package can read.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q8_0 Type = 8
	BF16 Type = 30
)

// blockSize is the number of elements that share a scale in Q8_0, Q4_0 and Q4_1.
const blockSize = 32

// blocks holds, for each readable type, the number of elements per block and the size of a block in bytes.
var blocks = map[Type]struct{ elements, bytes int64 }{
	F32: {1, 4}, F16: {1, 2}, BF16: {1, 2},
	Q8_0: {blockSize, 2 + blockSize}, Q4_0: {blockSize, 2 + blockSize/2}, Q4_1: {blockSize, 2 + 2 + blockSize/2},
}

// typeNames holds ggml's names of all types, for errors about unsupported ones.
var typeNames = map[Type]string{
	F32: "F32", F16: "F16", Q4_0: "Q4_0", Q4_1: "Q4_1", 6: "Q5_0", 7: "Q5_1", Q8_0: "Q8_0", 9: "Q8_1",
	10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K",
	16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
	24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", BF16: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}

// String returns ggml's name of the type.
func (t Type) String() string {
	if n, ok := typeNames[t]; ok {
		return n
	}
	return fmt.Sprintf("unknown(%d)", uint32(t))
}

// Info describes a tensor. Shape is row-major, outermost dimension first, as in
// PyTorch: the reverse of the order in the file.
type Info struct {
	Type  Type
	Shape []int
}

// Elements returns the number of elements.
func (i Info) Elements() int {
	n := 1
	for _, d := range i.Shape {
		n *= d
	}
	return n
}

// byteSize returns the size of the tensor in bytes, or an error if it overflows.
// Open calls byteSize for every tensor, so that Elements cannot overflow later.
func (i Info) byteSize() (int64, error) {
	block, ok := blocks[i.Type]
	if !ok {
		return 0, fmt.Errorf("tensor type %s is not supported (supported: F32, F16, BF16, Q8_0, Q4_0, Q4_1)", i.Type)
	}
	row := i.Shape[len(i.Shape)-1]
	if int64(row)%block.elements != 0 {
		return 0, fmt.Errorf("rows of %d elements do not consist of whole %s blocks of %d", row, i.Type, block.elements)
	}
	n := uint64(1)
	for _, d := range i.Shape {
		hi, lo := bits.Mul64(n, uint64(d))
		// An element takes at least half a byte, so this check also limits the byte size.
		if hi != 0 || lo > math.MaxInt64/8 {
			return 0, fmt.Errorf("shape %v overflows", i.Shape)
		}
		n = lo
	}
	return int64(n) / block.elements * block.bytes, nil
}

package torch

// #include "openmanus_torch.h"
import "C"

import (
	"fmt"
	"math/rand/v2"
	"unsafe"
)

// Dropout sets a share p of the elements to 0 and scales the others by 1/(1-p) (Srivastava et al. 2014, in
// the inverted form), for packed sequences t [N,...]: sequence i is the rows offsets[i] to offsets[i+1]-1. The dropped elements
// of a sequence depend only on its key, the index and the element's position in the sequence: a repeated pass with the same key
// drops the same elements, whatever is packed with them, and each layer of a pass has a different index.
//
// The draws are equal on all devices. On a GPU a kernel makes them (shim/cuda/dropout.cu); elsewhere the host draws a mask.
func (t Tensor) Dropout(p float64, keys []uint64, offsets []int, index uint64) Tensor {
	const op = "Dropout"
	if !(p >= 0 && p < 1) {
		Fail(op, "the share that is dropped must be at least 0 and below 1", t)
	}
	t.in(op)
	if len(offsets) != len(keys)+1 || len(keys) == 0 || offsets[0] != 0 || offsets[len(keys)] != t.Size(0) {
		Fail(op, fmt.Sprintf("%d keys for sequences with the offsets %v", len(keys), offsets), t)
	}
	if p == 0 {
		return t
	}
	if !t.Device().IsCPU() {
		var out C.om_tensor
		po, _ := dims(offsets)
		pk := (*C.uint64_t)(unsafe.SliceData(keys))
		check(op, C.om_dropout(t.in(op), C.double(p), pk, po, C.int64_t(len(keys)), C.uint64_t(index), &out), t)
		if out != nil {
			return t.out(out)
		}
	}
	var mask []byte
	for i, key := range keys {
		mask = append(mask, dropoutMask((offsets[i+1]-offsets[i])*(t.Numel()/max(1, t.Size(0))), p, key, index)...)
	}
	kept := t.h.t.cur.Bytes(mask, Uint8, t.Shape()...)
	return t.Mul(kept.To(t.DType())).MulScalar(1 / (1 - p))
}

// dropoutMask returns 1 for each kept element and 0 for each dropped one. Four elements share the bits of one
// number, so that the mask of a long sequence is cheap compared with the matrix products around it.
func dropoutMask(n int, p float64, key, index uint64) []byte {
	r := rand.NewPCG(key, index)
	limit := uint64(p * (1 << 16))
	out := make([]byte, n)
	var bits uint64
	for i := range out {
		if i%4 == 0 {
			bits = r.Uint64()
		}
		if bits&0xffff >= limit {
			out[i] = 1
		}
		bits >>= 16
	}
	return out
}

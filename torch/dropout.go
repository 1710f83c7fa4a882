package torch

import "math/rand/v2"

// Dropout sets a share p of the elements to 0 and scales the others by 1/(1-p) (Srivastava et al. 2014, in
// the inverted form). The dropped elements depend only on key, index and the element's position: a repeated
// pass with the same key drops the same elements, and each layer of a pass has a different index.
//
// The mask is drawn on the host, because libtorch's generator does not give equal draws on different devices.
func (t Tensor) Dropout(p float64, key, index uint64) Tensor {
	const op = "Dropout"
	if !(p >= 0 && p < 1) {
		Fail(op, "the share that is dropped must be at least 0 and below 1", t)
	}
	t.in(op)
	if p == 0 {
		return t
	}
	kept := t.h.t.cur.Bytes(dropoutMask(t.Numel(), p, key, index), Uint8, t.Shape()...)
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

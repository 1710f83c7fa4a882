package torch

// #include "openmanus_torch.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Logits returns hidden · weightᵀ + bias in float32, or in float64 for float64, without gradients: hidden [R,D], weight [V,D], bias
// [V] or the zero Tensor.
func Logits(hidden, weight, bias Tensor) Tensor {
	var out C.om_tensor
	return result("Logits", C.om_logits(hidden.in("Logits"), weight.in("Logits"), bias.opt("Logits"), &out), &out, hidden, weight, bias)
}

// TokenLogProbs returns log softmax(z/temperature)[target] for z = hidden [N,D] · weight [V,D]ᵀ + bias [V] (bias may be
// the zero Tensor) and, if wantEntropy, the entropy of that softmax. Both are [N] float32 (float64 for float64
// operands) and differentiable. z is computed for a few rows at a time, in float32 even for bfloat16 operands, and
// computed again in the backward pass, so it is never in memory as a whole. A target below 0 gives 0 and no gradient.
//
// The softmax of row i is over the tokens kept[i], which include the target. An empty kept[i], or a nil kept, means the
// whole vocabulary.
func TokenLogProbs(hidden, weight, bias Tensor, targets []int64, kept [][]int32, temperature float64, wantEntropy bool) (logp, entropy Tensor) {
	const op = "TokenLogProbs"
	var offsets []int
	var ids []int32
	if kept != nil {
		if len(kept) != len(targets) {
			Fail(op, fmt.Sprintf("%d lists of kept tokens for %d targets", len(kept), len(targets)), hidden)
		}
		ids, offsets = flatten(kept)
	}
	var lp, e C.om_tensor
	pe := &e
	if !wantEntropy {
		pe = nil
	}
	p, n := dims(targets)
	po, _ := dims(offsets)
	check(op, C.om_token_logprobs(hidden.in(op), weight.in(op), bias.opt(op), p, n, po, (*C.int32_t)(unsafe.SliceData(ids)),
		C.double(temperature), &lp, pe), hidden, weight, bias)
	if wantEntropy {
		entropy = hidden.out(e)
	}
	return hidden.out(lp), entropy
}

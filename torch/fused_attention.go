package torch

// #include "openmanus_torch.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// AttentionPacked computes causal attention inside each of several packed sequences: q [N,Hq,Dh], k
// and v [N,Hkv,Dh]. Sequence i has the tokens offsets[i] … offsets[i+1]-1. Head h of q reads head
// h/(Hq/Hkv) of k and v. A sequence's result does not depend on the other sequences.
func AttentionPacked(q, k, v Tensor, offsets []int, scale float64) Tensor {
	const op = "AttentionPacked"
	var out C.om_tensor
	p, n := dims(offsets)
	return result(op, C.om_attention_packed(q.in(op), k.in(op), v.in(op), p, n, C.double(scale), &out), &out, q, k, v)
}

// AttentionShared is AttentionPacked of sequences that may continue another one: parents[i] is -1, or an earlier sequence with the
// parent -1. The tokens of sequence i attend to all tokens of its parent, and to its own as in AttentionPacked. On the CPU the results
// have the same bits as if each sequence had a copy of its parent's tokens, and the gradient of a parent is summed over the copies.
func AttentionShared(q, k, v Tensor, offsets, parents []int, scale float64) Tensor {
	const op = "AttentionShared"
	if len(offsets) != len(parents)+1 {
		Fail(op, fmt.Sprintf("%d parents for sequences with the offsets %v", len(parents), offsets), q)
	}
	var out C.om_tensor
	p, n := dims(offsets)
	of, _ := dims(parents)
	return result(op, C.om_attention_shared(q.in(op), k.in(op), v.in(op), p, of, n, C.double(scale), &out), &out, q, k, v)
}

// CacheWrite copies the key and value of token i from k and v [N,Hkv,Dh] to slot slots[i] = block · blockSize
// + offset of the paged caches kc and vc [blocks, blockSize, Hkv, Dh], converted to their type.
func CacheWrite(kc, vc, k, v Tensor, slots []int64) {
	const op = "CacheWrite"
	p, n := dims(slots)
	check(op, C.om_cache_write(kc.in(op), vc.in(op), k.in(op), v.in(op), p, n), kc, vc, k, v)
}

// CachedSeqs maps the new tokens of one call to sequences and cache blocks.
type CachedSeqs struct {
	QOffsets []int     // sequence i has the new tokens QOffsets[i] … QOffsets[i+1]-1
	Lens     []int     // its context length, including the new tokens
	Blocks   [][]int32 // the blocks of the cache that hold its context, in order
}

// AttentionCached computes the attention of new tokens q [N,Hq,Dh] to their sequences' contexts in the paged caches kc and vc
// [blocks, blockSize, Hkv, Dh], which already contain the keys and values of the new tokens. There is no gradient. On the CPU a
// token's result depends only on its context and on whether its sequence has more than 8 new tokens.
func AttentionCached(q, kc, vc Tensor, seqs CachedSeqs, scale float64) Tensor {
	const op = "AttentionCached"
	n := len(seqs.Lens)
	if len(seqs.QOffsets) != n+1 || len(seqs.Blocks) != n {
		Fail(op, fmt.Sprintf("%d lengths need %d offsets and %d block lists, not %d and %d", n, n+1, n, len(seqs.QOffsets), len(seqs.Blocks)), q, kc)
	}
	if PagedKernels(kc) && q.DType() == kc.DType() {
		return kc.h.t.cur.Upload(Step{Seqs: seqs}, kc.Size(0), kc.Size(1)).Attention(q, kc, vc, scale)
	}
	blocks, offsets := flatten(seqs.Blocks)
	var out C.om_tensor
	qo, _ := dims(seqs.QOffsets)
	lens, _ := dims(seqs.Lens)
	bo, _ := dims(offsets)
	bp := (*C.int32_t)(unsafe.SliceData(blocks))
	return result(op, C.om_attention_cached(q.in(op), kc.in(op), vc.in(op), C.int64_t(n), qo, lens, bo, bp, C.double(scale), &out), &out, q, kc, vc)
}

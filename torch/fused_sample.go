package torch

// #include "openmanus_torch.h"
import "C"

import (
	"math"
	"unsafe"
)

// SampleRow has the sampling parameters of one row of logits.
type SampleRow struct {
	Key         uint64 // key of the generator: one per sequence
	Position    uint64 // position of the draw in its sequence
	Temperature float32
	TopP        float32 // no limit if 1 or more
	TopK        int     // no limit if 0
	Greedy      bool    // take the largest logit; implied by Temperature <= 0, where log-probs are at temperature 1
}

// Restricted reports whether TopK or TopP may exclude tokens from the draw.
func (r SampleRow) Restricted() bool { return !r.Greedy && (r.TopK > 0 || r.TopP < 1) }

// Sample draws one token per row of logits [R,V] as argmax(logits/T + G). The Gumbel noise G is a function of key,
// position and token id alone (Philox 4x32-10, 32 bits per token), so a draw does not depend on the rest of the batch.
// logps are log-probs under softmax(logits/T). TopK, and then TopP among the remaining tokens, restrict the draw and
// the softmax to a subset of the vocabulary: kept[i] holds row i's subset in ascending order, or nil if it is the whole vocabulary.
func Sample(logits Tensor, rows []SampleRow) (ids []int32, logps []float32, kept [][]int32) {
	const op = "Sample"
	if HasKernels(logits) {
		words := drawWords(rows)
		return draw(logits, logits.h.t.cur.Int32s(words, len(words)), rows).Get()
	}
	crows := sampleRows(rows)
	ids, logps = make([]int32, len(rows)), make([]float32, len(rows))
	counts := make([]int64, len(rows))
	var all C.om_tensor
	check(op, C.om_sample(logits.in(op), unsafe.SliceData(crows), C.int64_t(len(rows)),
		(*C.int32_t)(unsafe.SliceData(ids)), (*C.float)(unsafe.SliceData(logps)),
		(*C.int64_t)(unsafe.SliceData(counts)), &all), logits)
	list := logits.out(all).ToInt32s()
	kept = make([][]int32, len(rows))
	for i, n := range counts {
		if n > 0 {
			kept[i], list = list[:n:n], list[n:]
		}
	}
	return ids, logps, kept
}

// sampleRows returns the rows for the C interface.
func sampleRows(rows []SampleRow) []C.om_sample_row {
	out := make([]C.om_sample_row, len(rows))
	for i, r := range rows {
		out[i] = C.om_sample_row{
			key: C.uint64_t(r.Key), position: C.uint64_t(r.Position),
			temperature: C.double(r.Temperature), top_p: C.double(r.TopP), top_k: C.int64_t(r.TopK),
		}
		if r.Greedy {
			out[i].greedy = 1
		}
	}
	return out
}

// philox computes the random numbers of Sample.
func philox(counter [4]uint32, key [2]uint32) (out [4]uint32) {
	mustLoad()
	C.om_philox((*C.uint32_t)(&counter[0]), (*C.uint32_t)(&key[0]), (*C.uint32_t)(&out[0]))
	return out
}

// SampleNoise returns the Gumbel noise that Sample adds to the logit of a token,
// for a key and a position.
func SampleNoise(key, position uint64, token int32) float64 {
	v := uint32(token)
	h := philox([4]uint32{v / 4, 0, uint32(position), uint32(position >> 32)}, [2]uint32{uint32(key), uint32(key >> 32)})[v%4]
	return -math.Log(-math.Log1p(-(float64(h) + 0.5) * 0x1p-32))
}

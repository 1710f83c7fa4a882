package torch

// #include "openmanus_torch.h"
import "C"

import (
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// Step lists the new tokens of several cached sequences, one sequence after another, and the draws that follow them.
type Step struct {
	IDs       []int32
	Positions []int32
	Slots     []int64     // the cache slot for each token's key and value
	Seqs      CachedSeqs  // how the tokens divide into sequences, with context lengths and blocks
	Outputs   []int64     // tokens whose hidden states are needed
	Draws     []SampleRow // the sampling parameters of each of Outputs, or none
}

// DeviceStep is a Step on a device other than the CPU.
type DeviceStep struct {
	IDs, Outputs Tensor

	positions, slots, lens, starts, blocks Tensor // of CachedSeqs: lens and starts have an entry per token
	tokens, tiles                          Tensor // tokens that are computed one by one, and tiles of longer chunks
	draws                                  Tensor
	rows                                   []SampleRow
	longest                                int // at least the length of the longest context of tokens

	all Tensor // the memory of the other tensors, in their order
}

// HasKernels reports whether t is on a device other than the CPU that has the program's own kernels for t's type.
func HasKernels(t Tensor) bool {
	const op = "HasKernels"
	var yes C.int64_t
	check(op, C.om_has_gpu_kernels(t.in(op), &yes), t)
	return yes != 0
}

// PagedKernels reports whether Upload may be used for the cache kc.
func PagedKernels(kc Tensor) bool {
	return HasKernels(kc) && kc.Dim() == 4 && kc.Size(3) <= C.OM_PAGED_MAX_DIM
}

// Upload copies a step for a cache of a number of blocks to the device in one transfer.
func (s *Scope) Upload(step Step, blocks, blockSize int) *DeviceStep {
	p := packStep(step, blocks, blockSize)
	lengths, words := p.words(step)
	d := newDeviceStep(s.Int32s(words, len(words)), lengths)
	d.rows, d.longest = step.Draws, p.longest
	return d
}

// words returns the arrays of a step one after another, and their lengths. The table of blocks is the last, and the only one whose
// length varies between steps of as many tokens, all of which are decoded and drawn from.
func (p *packedStep) words(step Step) (lengths [10]int, all []int32) {
	for i, a := range [...][]int32{step.IDs, p.outputs, step.Positions, p.slots, p.lens, p.starts, p.tokens, p.tiles, drawWords(step.Draws), p.blocks} {
		lengths[i] = len(a)
		all = append(all, a...)
	}
	return lengths, all
}

// newDeviceStep divides memory of the device into the tensors of a step.
func newDeviceStep(all Tensor, lengths [10]int) *DeviceStep {
	d := &DeviceStep{all: all}
	at := 0
	for i, view := range []*Tensor{&d.IDs, &d.Outputs, &d.positions, &d.slots, &d.lens, &d.starts, &d.tokens, &d.tiles, &d.draws, &d.blocks} {
		*view = all.Narrow(0, at, lengths[i])
		at += lengths[i]
	}
	return d
}

// FixedStep reserves memory of o for steps that decode one token of each of n sequences, in contexts of at most `longest` tokens, and
// draw from all. Its tensors stay at their addresses, as a Graph needs it; Refill sets their elements.
func (o *Owner) FixedStep(s *Scope, n, longest, blockSize int) *DeviceStep {
	table := n * ((longest + blockSize - 1) / blockSize)
	lengths := [10]int{n, n, n, n, n, n, n, 0, n * C.OM_DRAW_WORDS, table}
	total := 0
	for _, l := range lengths {
		total += l
	}
	d := newDeviceStep(s.Empty(Int32, total), lengths)
	d.longest = longest
	o.Own(d.all, d.IDs, d.Outputs, d.positions, d.slots, d.lens, d.starts, d.tokens, d.tiles, d.draws, d.blocks)
	return d
}

// Refill copies a step for a cache of a number of blocks to the memory of FixedStep in one transfer.
func (d *DeviceStep) Refill(step Step, blocks, blockSize int) {
	p := packStep(step, blocks, blockSize)
	lengths, words := p.words(step)
	n := d.IDs.Size(0)
	if want := [10]int{n, n, n, n, n, n, n, 0, n * C.OM_DRAW_WORDS, lengths[9]}; lengths != want || p.longest > d.longest || lengths[9] > d.blocks.Size(0) {
		Fail("Refill", fmt.Sprintf("a step of %d tokens in contexts of at most %d tokens does not fit into the memory for %d tokens in contexts of %d",
			lengths[0], p.longest, n, d.longest))
	}
	d.rows = step.Draws
	to := d.all.Narrow(0, 0, len(words))
	check("Refill", C.om_upload_into(to.in("Refill"), unsafe.Pointer(unsafe.SliceData(words)), C.int64_t(4*len(words))), to)
}

// packedStep has the arrays of a DeviceStep.
type packedStep struct {
	outputs, slots, lens, starts, blocks, tokens, tiles []int32
	longest                                             int
}

// packStep checks that a step stays within its cache.
func packStep(step Step, blocks, blockSize int) (p packedStep) {
	const op = "Upload"
	if blocks*blockSize > math.MaxInt32 {
		Fail(op, fmt.Sprintf("a cache of %d blocks of %d is too large; at most %d places are supported", blocks, blockSize, math.MaxInt32))
	}
	for i, slot := range step.Slots {
		if slot < 0 || slot >= int64(blocks*blockSize) {
			Fail(op, fmt.Sprintf("slot %d of token %d is not in a cache of %d places", slot, i, blocks*blockSize))
		}
		p.slots = append(p.slots, int32(slot))
	}
	for _, at := range step.Outputs {
		p.outputs = append(p.outputs, int32(at))
	}
	q := step.Seqs
	for i, length := range q.Lens {
		begin, end := q.QOffsets[i], q.QOffsets[i+1]
		used := (length + blockSize - 1) / blockSize
		if n := end - begin; n < 0 || n > length || used > len(q.Blocks[i]) {
			Fail(op, fmt.Sprintf("sequence %d has %d new tokens in a context of %d, with %d blocks of %d", i, n, length, len(q.Blocks[i]), blockSize))
		}
		for t := begin; t < end; t++ {
			p.lens, p.starts = append(p.lens, int32(length-(end-1-t))), append(p.starts, int32(len(p.blocks)))
		}
		if end-begin <= C.OM_ATTENTION_ONE_QUERY {
			for t := begin; t < end; t++ {
				p.tokens = append(p.tokens, int32(t))
			}
			p.longest = max(p.longest, length)
		} else {
			for t := begin; t < end; t += C.OM_ATTENTION_TILE {
				p.tiles = append(p.tiles, int32(t), int32(min(C.OM_ATTENTION_TILE, end-t)))
			}
		}
		for _, b := range q.Blocks[i][:used] {
			if b < 0 || int(b) >= blocks {
				Fail(op, fmt.Sprintf("sequence %d names block %d of %d", i, b, blocks))
			}
			p.blocks = append(p.blocks, b)
		}
	}
	return p
}

// RoPEWrite is the function RoPEWrite for the tokens of a step, after the norms of the heads. cos and sin [positions,Dh/2] have the
// angles of every position.
func (d *DeviceStep) RoPEWrite(q, k, v Tensor, qn, kn HeadNorm, cos, sin, kc, vc Tensor) Tensor {
	const op = "RoPEWrite"
	var out C.om_tensor
	return result(op, C.om_rope_write_paged(q.in(op), k.in(op), v.in(op), qn.Weight.opt(op), C.double(qn.Eps), kn.Weight.opt(op), C.double(kn.Eps),
		cos.in(op), sin.in(op), kc.in(op), vc.in(op), d.positions.in(op), d.slots.in(op), &out), &out, q, k, v, kc)
}

// Attention is AttentionCached for the tokens of a step.
func (d *DeviceStep) Attention(q, kc, vc Tensor, scale float64) Tensor {
	const op = "AttentionCached"
	var out C.om_tensor
	return result(op, C.om_attention_paged(q.in(op), kc.in(op), vc.in(op), d.tokens.in(op), d.lens.in(op), d.starts.in(op), d.blocks.in(op), d.tiles.in(op),
		C.int64_t(d.longest), C.double(scale), &out), &out, q, kc, vc)
}

// Draw is the first half of Sample for the draws of a step. It submits the work and does not wait for it.
func (d *DeviceStep) Draw(logits Tensor) *Drawn { return draw(logits, d.draws, d.rows) }

// Drawn are draws that a device computes.
type Drawn struct {
	logits, out Tensor
	cuts        Tensor // none unless a row has top-k or top-p
	rows        []SampleRow
}

// Own gives the tensors of d, which include the logits, to o.
func (d *Drawn) Own(o *Owner) { o.Own(d.logits, d.out, d.cuts) }

// draw submits a draw from each row of logits. draws has drawWords of rows.
func draw(logits, draws Tensor, rows []SampleRow) *Drawn {
	const op = "Sample"
	cut := C.int64_t(0)
	if slices.ContainsFunc(rows, SampleRow.Restricted) {
		cut = 1
	}
	var out, cuts C.om_tensor
	check(op, C.om_draw(logits.in(op), draws.in(op), cut, &out, &cuts), logits)
	d := &Drawn{logits: logits, out: logits.out(out), rows: rows}
	if cut != 0 {
		d.cuts = logits.out(cuts)
	}
	return d
}

// Get waits for the draws and returns what Sample returns. It copies the ids and log-probs to the host and, if a token was
// excluded, the kept tokens in a second copy.
func (d *Drawn) Get() (ids []int32, logps []float32, kept [][]int32) {
	const op = "Sample"
	words := d.out.ToInt32s()
	n := len(words) / 3
	ids, logps, kept = words[:n:n], make([]float32, n), make([][]int32, n)
	total := 0
	for i, id := range ids {
		if id < 0 {
			Fail(op, fmt.Sprintf("the logits of row %d hold a NaN or +inf, or nothing finite", i), d.logits)
		}
		logps[i] = math.Float32frombits(uint32(words[n+i]))
		total += int(words[2*n+i])
	}
	if total == 0 {
		return ids, logps, kept
	}
	var out C.om_tensor
	check(op, C.om_draw_kept(d.logits.in(op), d.cuts.in(op), C.int64_t(total), &out), d.logits)
	list := d.logits.out(out).ToInt32s()
	for i := range kept {
		if k := words[2*n+i]; k > 0 {
			kept[i], list = list[:k:k], list[k:]
		}
	}
	return ids, logps, kept
}

// drawWords returns the rows in the form that the kernels read.
func drawWords(rows []SampleRow) []int32 {
	words := make([]int32, len(rows)*C.OM_DRAW_WORDS)
	c := sampleRows(rows)
	check("Sample", C.om_draw_words(unsafe.SliceData(c), C.int64_t(len(c)), (*C.int32_t)(unsafe.SliceData(words))))
	return words
}

package learner

// Model FLOPs utilisation (MFU): the floating-point operations that a phase needs, as
// a share of the device's peak in the same time (PaLM, arXiv:2204.02311, appendix B;
// verl's FlopsCounter, spec 7.6). With T tokens, S of them in the loss, N
// weights in the linear layers of the decoder, O outputs, width h, L layers of H
// heads of width d,
//
//	forward = 2·N·T + 2·h·O·S + 2·L·H·d·Σ len²
//	update  = 3 · forward, in every pass over the rows
//	MFU     = FLOPs / seconds / peak
//
// Under adapters the frozen weights get no gradient, so the backward pass needs
// one product for each of these weights instead of two.
//
// Differs from verl in: only operations that the result needs are counted, so the
// figure is lower: the input embedding is looked up, not multiplied (6·h·V·T in
// verl); the output layer reads only the tokens in the loss; attention is causal,
// so half of len² counts (12·L·H·d·Σ len² in verl). The peak is configured, since no
// table lists the peaks of CPUs. The count leaves out operations that are repeated to
// save memory, the reference inside kl.Full, and episodes that are not trained on. A prefix
// that rows share counts in each of them, although it is computed once.

import (
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/data"
)

// Cost holds the sizes of a model that determine the FLOPs of a pass.
type Cost struct {
	linear    float64 // number of weights of the decoder's linear layers
	adapters  float64 // number of weights of the adapters; 0: no adapters
	output    float64 // number of weights of the output layer
	attention float64 // total width of the queries of a position in all layers
}

// CostOf returns the cost of a model with the given number of outputs: the size of its vocabulary, or 1 for a critic.
func CostOf(m *model.Model, outputs int) Cost {
	blocks := m.Cost()
	cost := Cost{
		linear:    float64(blocks.Linear),
		output:    float64(m.Config.HiddenSize) * float64(outputs),
		attention: float64(blocks.Attention),
	}
	for _, p := range m.Adapters() {
		cost.adapters += float64(p.Tensor.Numel())
	}
	return cost
}

// parts returns the FLOPs of a forward pass over the rows in three parts: the layers and the output, the adapters, and
// attention.
func (c Cost) parts(rows []data.Row) (frozen, trained, attention float64) {
	for i := range rows {
		n := float64(len(rows[i].Tokens))
		frozen += 2*c.linear*n + 2*c.output*float64(rows[i].SampledTokens())
		trained += 2 * c.adapters * n
		attention += 2 * c.attention * n * n // products with keys and with values, each over half of n²
	}
	return frozen, trained, attention
}

// Forward returns the FLOPs of a forward pass over the rows. Sampling the rows takes the same number.
func (c Cost) Forward(rows []data.Row) float64 {
	frozen, trained, attention := c.parts(rows)
	return frozen + trained + attention
}

// Update returns the FLOPs of the forward and backward passes of an update.
func (c Cost) Update(rows []data.Row, passes Passes) float64 {
	frozen, trained, attention := c.parts(rows)
	weights := 3.0
	if c.adapters > 0 {
		weights = 2
	}
	return float64(passes.Count()) * (weights*frozen + 3*(trained+attention))
}

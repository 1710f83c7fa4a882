package model

// Gradient checkpointing (Chen et al. 2016, arXiv:1604.06174) with one layer
// per segment, as transformers' gradient_checkpointing: the forward pass keeps
// only each layer's input, and the backward pass recomputes a layer, with
// recording, just before it needs the activations of the layer.
//
// Differs from torch.utils.checkpoint in that the graph ends at the last
// layer's output, and Backward continues from there layer by layer: the
// autograd graph has at most one layer. Random draws of a layer are keyed
// (SetDropout), so the recomputation draws the same values. The embedding is
// looked up again too, so that its weight may be released between the passes
// (sharded.go).
//
// A model whose gradients are sharded runs its backward pass layer by layer too,
// without checkpointing on the activations that the forward pass has kept, so that
// the gradients of each layer are summed over the ranks and freed before those of
// the next layer are computed.

import (
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
	"github.com/openmanus/openmanus/torch/shard"
)

// tape holds the state of one forward pass that Backward needs.
type tape struct {
	pass     *nn.Pass
	ids      []int32
	embedded bool           // the embedding is trained
	inputs   []torch.Tensor // input of each layer, a leaf
	outputs  []torch.Tensor // output of each layer, with its graph; nil: the layers are recomputed
	out      torch.Tensor   // output of the last layer, a leaf; Backward starts from its gradient
}

// SetGradientCheckpointing switches gradient checkpointing on or off for forward
// passes that record. It is always on for weights at level shard.Weights. Gradients must then be computed with Model.Backward
// instead of the loss's own Backward.
func (m *Model) SetGradientCheckpointing(on bool) { m.checkpointing = on }

// recomputes reports whether backward passes recompute activations.
func (m *Model) recomputes() bool {
	return m.checkpointing || m.weightsSharded() && m.sharded.o.Level == shard.Weights
}

// forwardByLayer computes the hidden states and records a tape for
// Backward. The tape's tensors belong to s.
func (m *Model) forwardByLayer(s *torch.Scope, ids []int32, p *nn.Pass) torch.Tensor {
	t := &tape{pass: p, ids: ids}
	var x torch.Tensor
	s.NoGrad(func() {
		m.using(s, embedding, func() {
			t.embedded = m.EmbedTokens.Weight.RequiresGrad()
			x = m.EmbedTokens.Forward(s.Int32s(ids, len(ids)))
		})
	})
	layers := func() {
		for i, block := range m.Layers {
			x = x.Detach()
			// The first layer's input needs a gradient only if the embedding is trained.
			x.SetRequiresGrad(i > 0 || t.embedded)
			t.inputs = append(t.inputs, x)
			m.using(s, layer(i), func() {
				s.Do(func(s *torch.Scope) {
					x = block.Forward(p, x)
					s.Keep(x)
				})
			})
			if !m.recomputes() {
				t.outputs = append(t.outputs, x)
			}
		}
	}
	if m.recomputes() {
		s.NoGrad(layers)
	} else {
		layers()
	}
	t.out = x.Detach()
	t.out.SetRequiresGrad(true)
	m.tapes = append(m.tapes, t)
	m.holdNorm(s)
	return m.Norm.Forward(t.out)
}

// Backward accumulates the gradients of a loss with one element into the trained
// parameters. It runs in the scope of the forward passes.
func (m *Model) Backward(s *torch.Scope, loss torch.Tensor) {
	defer m.DropTapes()
	loss.Backward()
	m.sumHeld(s)
	for i := len(m.tapes) - 1; i >= 0; i-- {
		m.rewind(s, m.tapes[i])
	}
}

// DropTapes ends forward passes whose loss is not used, and passes without
// gradients: it discards their state and releases the weights that they hold.
func (m *Model) DropTapes() {
	m.tapes = nil
	m.endPass()
}

// rewind runs the backward pass of the layers of one forward pass from the last to
// the first, which it recomputes unless their outputs are on the tape.
func (m *Model) rewind(s *torch.Scope, t *tape) {
	grad := t.out.Grad()
	if grad.None() {
		return // the loss did not depend on this pass
	}
	held := torch.NewOwner(m.thread, "gradient of a layer's input") // frees each after its use, unlike s
	defer held.Close()
	held.Own(grad)
	for i := len(m.Layers) - 1; i >= 0; i-- {
		x := t.inputs[i]
		m.using(s, layer(i), func() {
			s.Do(func(*torch.Scope) {
				var y torch.Tensor
				if t.outputs != nil {
					y = t.outputs[i]
				} else {
					y = m.Layers[i].Forward(t.pass, x)
				}
				if onRewind != nil {
					onRewind(m)
				}
				if y.RequiresGrad() { // false only if this is the first layer, and the layer and the embedding are frozen
					y.BackwardWith(grad)
				}
			})
			m.sumLayer(s, layer(i))
		})
		next := x.Grad()
		if next.None() {
			return
		}
		x.ZeroGrad()
		held.Own(next)
		held.Release(grad)
		grad = next
	}
	m.using(s, embedding, func() {
		s.Do(func(s *torch.Scope) { m.EmbedTokens.Forward(s.Int32s(t.ids, len(t.ids))).BackwardWith(grad) })
		m.sumLayer(s, embedding)
	})
}

// onRewind is a hook for tests. It runs when a backward pass uses the most memory.
var onRewind func(*Model)

package nn

import "github.com/openmanus/openmanus/torch"

// Layer is a part of a decoder that maps states [N,D] to states [N,D]: attention, a feed-forward block, or a whole
// block of both. The same Forward serves training, scoring and generation; the Pass contains their differences.
//
// A new kind (sliding-window attention, a mixture of experts) is a new type with this method. It calls Pass for linear
// layers, rotation and attention, and names its parameters in field tags (see Params). An attention kind also has a method
// QueryWidth() int, from which FLOPs are counted.
type Layer interface {
	Forward(p *Pass, x torch.Tensor) torch.Tensor
}

// Pass is one forward pass over N tokens of several sequences, one sequence after another without padding.
type Pass struct {
	Cos, Sin torch.Tensor // [N,HeadDim/2], from RoPE.Angles
	Offsets  []int        // used without KV: sequence i has the tokens Offsets[i] … Offsets[i+1]-1
	Parents  []int        // used without KV: the sequence that each sequence continues, or -1, see torch.AttentionShared; nil: all -1
	KV       *KV          // cache of earlier keys and values in generation; nil in training and scoring

	// Sum adds the results of Out over the ranks among which the layers are divided, and returns the same sum on all ranks.
	// It may overwrite its argument. nil: one rank has whole layers.
	Sum func(torch.Tensor) torch.Tensor

	residual torch.Tensor // what Out adds to; none outside Residual
}

// KV is the part of a paged KV cache that belongs to one layer. A pass with a KV runs inside NoGrad.
type KV struct {
	K, V  torch.Tensor     // [Blocks,BlockSize,Hkv,Dh]
	Slots []int64          // [N]: the slot for the key and value of each new token
	Seqs  torch.CachedSeqs // how the N tokens divide into sequences, with their context lengths and blocks

	// Step replaces Slots and Seqs on a device with kernels for a paged cache, where Cos and Sin of the Pass have the angles
	// of all positions instead of those of the N tokens. Elsewhere it is nil.
	Step *torch.DeviceStep
}

// Linear applies linear layers to the same x [N,I]. The results are [N,O] each, and differentiable in a pass without KV.
func (p *Pass) Linear(x torch.Tensor, layers ...*Linear) []torch.Tensor {
	if p.KV != nil {
		return infer(x, layers...)
	}
	weights, biases := make([]torch.Tensor, len(layers)), make([]torch.Tensor, len(layers))
	for i, l := range layers {
		weights[i], biases[i] = l.Weight, l.Bias
	}
	out := torch.Linears(x, weights, biases)
	for i, l := range layers {
		if l.LoRA != nil {
			out[i] = out[i].Add(l.LoRA.forward(x))
		}
	}
	return out
}

// Attend rotates q [N,Hq,Dh] and k [N,Hkv,Dh] by the positions and computes causal attention inside each sequence,
// softmax(q·kᵀ·scale)·v, for v [N,Hkv,Dh]. With a KV it first writes k and v to the cache, then attends to the whole cached
// context. The result is [N,Hq·Dh].
func (p *Pass) Attend(q, k, v torch.Tensor, scale float64) torch.Tensor {
	return p.AttendNormed(q, k, v, nil, nil, scale)
}

// AttendNormed is Attend after norms of every head of q and k; nil: no norm.
func (p *Pass) AttendNormed(q, k, v torch.Tensor, qNorm, kNorm *RMSNorm, scale float64) torch.Tensor {
	var h torch.Tensor
	if c := p.KV; c != nil {
		if c.Step != nil {
			q = c.Step.RoPEWrite(q, k, v, qNorm.head(), kNorm.head(), p.Cos, p.Sin, c.K, c.V)
			h = c.Step.Attention(q, c.K, c.V, scale)
			return h.Reshape(h.Size(0), -1)
		}
		if qNorm != nil {
			q = qNorm.Forward(q)
		}
		if kNorm != nil {
			k = kNorm.Forward(k)
		}
		q = torch.RoPEWrite(q, k, v, p.Cos, p.Sin, c.K, c.V, c.Slots)
		h = torch.AttentionCached(q, c.K, c.V, c.Seqs, scale)
	} else {
		q, k, v = torch.RoPEHeads(q, k, v, p.Cos, p.Sin, qNorm.head(), kNorm.head())
		if p.Parents != nil {
			h = torch.AttentionShared(q, k, v, p.Offsets, p.Parents, scale)
		} else {
			h = torch.AttentionPacked(q, k, v, p.Offsets, scale)
		}
	}
	return h.Reshape(h.Size(0), -1)
}

// Residual returns x [N,D] plus the output of layer for y [N,D]. On a GPU, and for the few rows of a decoding step, the layer's last
// product adds to x, see Out.
func (p *Pass) Residual(x torch.Tensor, layer Layer, y torch.Tensor) torch.Tensor {
	if p.Sum != nil || x.Device().IsCPU() && (p.KV == nil || x.Size(0) > torch.SkinnyRows) {
		return x.Add(layer.Forward(p, y))
	}
	p.residual = x
	y = layer.Forward(p, y)
	if p.residual.None() {
		return y // Out added x
	}
	p.residual = torch.Tensor{}
	return x.Add(y)
}

// Out applies the last linear layer of a Layer to h [N,I], whose columns are the rank's heads or inner width. Within
// Residual it may return the sum of the result and the residual, in one operation. In a pass with KV the sum replaces
// the residual in memory.
func (p *Pass) Out(h torch.Tensor, l *Linear) torch.Tensor {
	if p.Sum != nil {
		return p.Sum(p.Linear(h, l)[0])
	}
	if p.residual.None() || l.LoRA != nil || l.Int8 != nil || !l.Bias.None() {
		return p.Linear(h, l)[0]
	}
	x := p.residual
	p.residual = torch.Tensor{}
	if p.KV == nil {
		return torch.LinearResidual(x, h, l.Weight)
	}
	torch.LinearAdd(x, h, l.Weight)
	return x
}

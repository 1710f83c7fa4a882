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
	KV       *KV          // cache of earlier keys and values in generation; nil in training and scoring
}

// KV is the part of a paged KV cache that belongs to one layer. A pass with a KV runs inside NoGrad.
type KV struct {
	K, V  torch.Tensor     // [Blocks,BlockSize,Hkv,Dh]
	Slots []int64          // [N]: the slot for the key and value of each new token
	Seqs  torch.CachedSeqs // how the N tokens divide into sequences, with their context lengths and blocks
}

// Linear applies linear layers to the same x [N,I]. The results are [N,O] each, and differentiable in a pass without KV.
func (p *Pass) Linear(x torch.Tensor, layers ...*Linear) []torch.Tensor {
	if p.KV != nil {
		return infer(x, layers...)
	}
	out := make([]torch.Tensor, len(layers))
	for i, l := range layers {
		out[i] = l.Forward(x)
	}
	return out
}

// Rotate applies rotary position embeddings to the heads h [N,H,Dh].
func (p *Pass) Rotate(h torch.Tensor) torch.Tensor { return torch.RoPE(h, p.Cos, p.Sin) }

// Attend computes causal attention inside each sequence, softmax(q·kᵀ·scale)·v, for q [N,Hq,Dh] and k, v [N,Hkv,Dh].
// With a KV it first writes k and v to the cache, then attends to the whole cached context. The result is [N,Hq·Dh].
func (p *Pass) Attend(q, k, v torch.Tensor, scale float64) torch.Tensor {
	var h torch.Tensor
	if c := p.KV; c != nil {
		torch.CacheWrite(c.K, c.V, k, v, c.Slots)
		h = torch.AttentionCached(q, c.K, c.V, c.Seqs, scale)
	} else {
		h = torch.AttentionPacked(q, k, v, p.Offsets, scale)
	}
	return h.Reshape(h.Size(0), -1)
}

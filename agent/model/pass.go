package model

import (
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
)

// pass is what the layers share during one run of the decoder.
type pass struct {
	c        *Config
	cos, sin torch.Tensor // [N,Dh/2], of the tokens' positions
	// attend mixes the values of a layer's tokens: q [N,Hq,Dh] and k, v
	// [N,Hkv,Dh], q and k rotated, to [N,Hq,Dh].
	attend func(layer int, q, k, v torch.Tensor) torch.Tensor
	// skinny multiplies with the kernel for few rows, which has no gradient.
	// It streams the weights at memory speed, where a general matrix product
	// of one row reaches a third of it.
	skinny bool
}

// linears applies several layers to the same input.
func (p *pass) linears(x torch.Tensor, layers ...*nn.Linear) []torch.Tensor {
	if p.skinny {
		return skinny(x, layers...)
	}
	out := make([]torch.Tensor, len(layers))
	for i, l := range layers {
		out[i] = l.Forward(x)
	}
	return out
}

func (p *pass) linear(x torch.Tensor, l *nn.Linear) torch.Tensor { return p.linears(x, l)[0] }

func skinny(x torch.Tensor, layers ...*nn.Linear) []torch.Tensor {
	weights, biases := make([]torch.Tensor, len(layers)), make([]torch.Tensor, len(layers))
	for i, l := range layers {
		weights[i], biases[i] = l.Weight, l.Bias
	}
	return torch.LinearsSkinny(x, weights, biases)
}

// heads splits [N,H·Dh] into [N,H,Dh].
func (p *pass) heads(x torch.Tensor) torch.Tensor { return x.View(x.Size(0), -1, p.c.HeadDim) }

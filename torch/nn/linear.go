package nn

import "github.com/openmanus/openmanus/torch"

// Linear is x · weightᵀ + bias.
type Linear struct {
	Weight torch.Tensor // [O,I]
	Bias   torch.Tensor // [O] or none
	LoRA   *LoRA        // adds to the result of a frozen weight; nil: none
}

// Forward maps x [...,I] to [...,O].
func (l *Linear) Forward(x torch.Tensor) torch.Tensor {
	y := x.Linear(l.Weight, l.Bias)
	if l.LoRA != nil {
		y = y.Add(l.LoRA.forward(x))
	}
	return y
}

// Infer applies layers to the same x [N,I] without gradients. The few rows of a decoding step go through a kernel that
// streams the weights at memory speed, where a general matrix product of one row reaches a third of it.
func Infer(x torch.Tensor, layers ...*Linear) []torch.Tensor {
	out := inferFrozen(x, layers)
	for i, l := range layers {
		if l.LoRA != nil {
			out[i] = out[i].Add(l.LoRA.infer(x))
		}
	}
	return out
}

// inferFrozen applies the weights, without the adapters on them.
func inferFrozen(x torch.Tensor, layers []*Linear) []torch.Tensor {
	out := make([]torch.Tensor, len(layers))
	if x.Size(0) > torch.SkinnyRows {
		for i, l := range layers {
			out[i] = x.Linear(l.Weight, l.Bias)
		}
		return out
	}
	weights, biases := make([]torch.Tensor, len(layers)), make([]torch.Tensor, len(layers))
	for i, l := range layers {
		weights[i], biases[i] = l.Weight, l.Bias
	}
	return torch.LinearsSkinny(x, weights, biases)
}

// Embedding is a row of its weight for every id.
type Embedding struct {
	Weight torch.Tensor // [V,D]
}

// Forward maps ids [...] (int32 or int64) to [...,D].
func (e *Embedding) Forward(ids torch.Tensor) torch.Tensor { return torch.Embedding(e.Weight, ids) }

// RMSNorm scales each vector to a mean square of 1, then by its weight (Zhang and Sennrich 2019, eq. 4).
type RMSNorm struct {
	Weight torch.Tensor // [D]
	Eps    float64      // added to the mean square
}

// Forward keeps the shape of x [...,D].
func (n *RMSNorm) Forward(x torch.Tensor) torch.Tensor { return torch.RMSNorm(x, n.Weight, n.Eps) }

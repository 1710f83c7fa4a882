package nn

import "github.com/openmanus/openmanus/torch"

// Param is one parameter of a layer.
type Param struct {
	Name   string // in the layer: "weight", "bias"
	Tensor *torch.Tensor
	Shape  []int
	Init   Init
}

// Init selects the values that training starts from.
type Init int

// Initial values of parameters, as transformers chooses them.
const (
	Normal Init = iota // normal with mean 0 and standard deviation initializer_range
	Zeros
	Ones
)

// Linear is x · weightᵀ + bias.
type Linear struct {
	In, Out int
	HasBias bool

	Weight torch.Tensor      // [Out,In]
	Bias   torch.Tensor      // [Out], or the zero Tensor
	LoRA   *LoRA             // adapter on the frozen weight; nil: none
	Int8   *torch.Int8Weight // copy of Weight, which Infer reads instead; nil: none
}

// NewLinear declares a linear layer; its tensors are set later.
func NewLinear(in, out int, bias bool) Linear { return Linear{In: in, Out: out, HasBias: bias} }

// Params lists the weight and, if declared, the bias.
func (l *Linear) Params() []Param {
	list := []Param{{"weight", &l.Weight, []int{l.Out, l.In}, Normal}}
	if l.HasBias {
		list = append(list, Param{"bias", &l.Bias, []int{l.Out}, Zeros})
	}
	return list
}

// Forward maps x [...,In] to [...,Out].
func (l *Linear) Forward(x torch.Tensor) torch.Tensor {
	y := x.Linear(l.Weight, l.Bias)
	if l.LoRA != nil {
		y = y.Add(l.LoRA.forward(x))
	}
	return y
}

// Infer computes Forward without gradients for the few rows x [N,In] of a decoding step.
func (l *Linear) Infer(x torch.Tensor) torch.Tensor { return infer(x, l)[0] }

// infer applies layers to the same x [N,I] without gradients. Up to torch.SkinnyRows rows go through a kernel that streams
// the weights at memory speed; a general matrix product with one row reaches a third of that speed.
func infer(x torch.Tensor, layers ...*Linear) []torch.Tensor {
	out := inferFrozen(x, layers)
	for i, l := range layers {
		if l.LoRA != nil {
			out[i] = out[i].Add(l.LoRA.infer(x))
		}
	}
	return out
}

// inferFrozen applies the layers without their adapters. All of them have an int8 copy, or none.
func inferFrozen(x torch.Tensor, layers []*Linear) []torch.Tensor {
	if layers[0].Int8 != nil {
		return inferInt8(x, layers)
	}
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

// inferInt8 is inferFrozen with the int8 copies, for any number of rows: a prompt is computed with the weights that draw its reply.
func inferInt8(x torch.Tensor, layers []*Linear) []torch.Tensor {
	weights, biases := make([]torch.Int8Weight, len(layers)), make([]torch.Tensor, len(layers))
	for i, l := range layers {
		weights[i], biases[i] = *l.Int8, l.Bias
	}
	return torch.LinearsInt8(x, weights, biases)
}

// Embedding maps each id to a row of its weight.
type Embedding struct {
	Rows, Dim int

	Weight torch.Tensor // [Rows,Dim]
}

// Params lists the weight.
func (e *Embedding) Params() []Param {
	return []Param{{"weight", &e.Weight, []int{e.Rows, e.Dim}, Normal}}
}

// Forward maps ids [...] (int32 or int64) to [...,Dim].
func (e *Embedding) Forward(ids torch.Tensor) torch.Tensor { return torch.Embedding(e.Weight, ids) }

// RMSNorm scales each vector to a mean square of 1, then by its weight (Zhang and Sennrich 2019, eq. 4).
type RMSNorm struct {
	Dim int
	Eps float64 // added to the mean square

	Weight torch.Tensor // [Dim]
}

// Params lists the weight.
func (n *RMSNorm) Params() []Param { return []Param{{"weight", &n.Weight, []int{n.Dim}, Ones}} }

// Forward keeps the shape of x [...,Dim].
func (n *RMSNorm) Forward(x torch.Tensor) torch.Tensor { return torch.RMSNorm(x, n.Weight, n.Eps) }

// ForwardResidual returns Forward(x) and x, for a residual connection around the norm, see torch.RMSNormResidual.
func (n *RMSNorm) ForwardResidual(x torch.Tensor) (y, residual torch.Tensor) {
	return torch.RMSNormResidual(x, n.Weight, n.Eps)
}

// head returns the norm for torch.RoPEHeads; n may be nil.
func (n *RMSNorm) head() torch.HeadNorm {
	if n == nil {
		return torch.HeadNorm{}
	}
	return torch.HeadNorm{Weight: n.Weight, Eps: n.Eps}
}

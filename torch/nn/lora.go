package nn

// Low-rank adaptation of a frozen linear layer (Hu et al. 2021, arXiv:2106.09685, section 4.1):
//
//	y = x·Wᵀ + bias + s · drop(x)·Aᵀ·Bᵀ,  A [r,I], B [O,r],  s = alpha / r
//
// Differs from PEFT in that dropout draws its mask from a key instead of a generator's state, so that a repeated forward
// pass draws the same mask.

import "github.com/openmanus/openmanus/torch"

// LoRA is the adapter of one Linear. Its dtype may differ from the layer's; its output has the layer's dtype.
type LoRA struct {
	A     torch.Tensor // lora_A [r,I]
	B     torch.Tensor // lora_B [O,r]
	Scale float64      // alpha / r, or alpha / √r with rank stabilisation

	Dropout *Dropout // nil: none
	Index   uint64   // index of the adapter, part of the key of dropout's random draws
}

// Dropout is shared by the adapters of a model. While it is off, as in generation and scoring, inputs are not changed.
type Dropout struct {
	P       float64  // share of the inputs that are dropped
	Keys    []uint64 // key of each sequence of the forward pass; the same key drops the same inputs. nil: dropout is off
	Offsets []int    // Pass.Offsets of the forward pass
}

// forward returns the adapter's contribution to the result for x [...,I].
func (l *LoRA) forward(x torch.Tensor) torch.Tensor {
	dt := x.DType()
	if d := l.Dropout; d != nil && d.Keys != nil {
		x = x.Dropout(d.P, d.Keys, d.Offsets, l.Index)
	}
	return x.Linear(l.A.To(dt), torch.Tensor{}).Linear(l.B.To(dt), torch.Tensor{}).MulScalar(l.Scale)
}

// infer computes forward without gradients or dropout, for x [N,I].
func (l *LoRA) infer(x torch.Tensor) torch.Tensor {
	a, b := Linear{Weight: l.A}, Linear{Weight: l.B}
	if x.Size(0) > torch.SkinnyRows {
		a.Weight, b.Weight = l.A.To(x.DType()), l.B.To(x.DType())
	}
	return b.Infer(a.Infer(x)).MulScalar(l.Scale)
}

// Delta returns the update of the layer's weight [O,I], in the adapter's type.
func (l *LoRA) Delta() torch.Tensor { return l.B.MatMul(l.A).MulScalar(l.Scale) }

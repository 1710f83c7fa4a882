package optim

import "github.com/openmanus/openmanus/torch"

// Share is one optimiser of a joint step, with its learning rate and the norm that the gradients of its parameters are
// clipped to (0: no limit).
type Share struct {
	Of          *AdamW
	LR, MaxNorm float64
}

// StepAll is AdamW.Step for several optimisers whose gradients come from one backward pass. It returns each norm before
// clipping. If the gradients of one optimiser are not finite, none of them steps.
func StepAll(s *torch.Scope, shares ...Share) (norms []float64, err error) {
	norms = make([]float64, len(shares))
	s.Do(func(s *torch.Scope) {
		s.NoGrad(func() {
			grads, scales := make([][]torch.Tensor, len(shares)), make([]float64, len(shares))
			for i, p := range shares {
				grads[i] = gradsOf(p.Of.params)
				var failed error
				if norms[i], scales[i], failed = clipScale(p.Of.params, grads[i], p.MaxNorm); err == nil {
					err = failed
				}
			}
			for i, p := range shares {
				if err == nil && anyOf(grads[i]) {
					p.Of.update(grads[i], p.LR, scales[i])
				}
				for _, x := range p.Of.params {
					x.Tensor.ZeroGrad()
				}
			}
		})
	})
	return norms, err
}

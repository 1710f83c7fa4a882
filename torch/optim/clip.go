package optim

import (
	"fmt"

	"github.com/openmanus/openmanus/torch"
)

// NotFiniteError reports gradients with an infinity or NaN.
type NotFiniteError struct {
	Norm   float64
	Params []string // parameters with such gradients; empty if only the norm overflows
}

func (e *NotFiniteError) Error() string {
	where := ""
	if len(e.Params) > 0 {
		where = fmt.Sprintf(" (%s and %d more)", e.Params[0], len(e.Params)-1)
	}
	return fmt.Sprintf("optim: the gradient norm is %v%s: training diverged, the weights were left as they were; lower the learning rate or the clipping norm", e.Norm, where)
}

// gradsOf returns the gradient of each parameter, or the zero Tensor for a parameter without one.
func gradsOf(params []Param) []torch.Tensor {
	grads := make([]torch.Tensor, len(params))
	for i, p := range params {
		grads[i] = p.Tensor.Grad()
	}
	return grads
}

// clipScale returns the factor that reduces gradients of a global L2 norm to at most maxNorm (0: no limit), as
// torch.nn.utils.clip_grad_norm_: min(1, maxNorm/(norm+1e-6)).
func clipScale(norm, maxNorm float64) float64 {
	if maxNorm <= 0 {
		return 1
	}
	return min(1, maxNorm/(norm+1e-6))
}

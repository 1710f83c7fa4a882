package optim

import (
	"fmt"
	"math"

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

// clipScale returns the global L2 norm of grads and the factor that reduces it to at most maxNorm (0: no limit), as
// torch.nn.utils.clip_grad_norm_: min(1, maxNorm/(norm+1e-6)). A norm that is not finite is a *NotFiniteError.
func clipScale(params []Param, grads []torch.Tensor, maxNorm float64) (norm, scale float64, err error) {
	norm = torch.GlobalNorm(grads)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		e := &NotFiniteError{Norm: norm}
		for i, g := range grads {
			if !g.None() && !g.AllFinite() {
				e.Params = append(e.Params, params[i].Name)
			}
		}
		return norm, 0, e
	}
	if maxNorm <= 0 {
		return norm, 1, nil
	}
	return norm, min(1, maxNorm/(norm+1e-6)), nil
}

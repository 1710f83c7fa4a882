package advantage

// Generalised advantage estimation over sampled tokens, t' being the next
// sampled token of the row (V = A = 0 after the last):
//
//	δ_t = r_t + γ V_{t'} - V_t
//	Â_t = δ_t + γ λ Â_{t'};   R_t = Â_t + V_t;   A = whiten(Â)
//
// Source: Schulman et al., arXiv:1506.02438, eq. 16, with the mask of verl's
// current code.
//
// Differs from OpenManus-RL in: observation tokens are skipped. OpenManus-RL's
// recursion includes them, so that the critic's values of text that the policy
// did not choose enter the sum and each such token adds a factor γλ.

import (
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

var lam = registry.NewParam("lam", 1.0, "lambda: 1 uses all following rewards, 0 uses the next reward and the critic's next value", registry.Between(0, 1))

func init() {
	Estimators.Add(registry.Entry{Name: "gae", Doc: "generalized advantage estimation with a critic", Params: []registry.Param{gamma.Param, lam.Param}}, Estimator{Estimate: gae, Needs: Needs{Values: true}})
}

func gae(rows []data.Row, o Options) error {
	for i := range rows {
		r := &rows[i]
		r.Advantages, r.Returns = make([]float32, len(r.Mask)), make([]float32, len(r.Mask))
		value, a := 0.0, 0.0 // value and advantage of the next sampled token
		for t := len(r.Mask) - 1; t >= 0; t-- {
			if r.Mask[t] != 1 {
				continue
			}
			v := float64(r.Values[t])
			a = float64(r.Rewards[t]) + gamma.In(o.Params)*value - v + gamma.In(o.Params)*lam.In(o.Params)*a
			value = v
			r.Advantages[t], r.Returns[t] = float32(a), float32(a+v)
		}
	}
	whiten(rows)
	return nil
}

package advantage

// GDPO: every part of the reward is normalised within its group separately, so
// that a part with large values does not dominate the others:
//
//	A_k = (r_k - mean_G r_k) / (std_G r_k + 1e-6),   of row i and part k
//	A   = whiten(Σ_k w_k A_k)
//
// over the sampled tokens of the batch, with w_k the part's weight. Source: GDPO,
// arXiv:2601.05242, and verl's gdpo. Without the division A_k = r_k - mean_G r_k.
//
// Differs from verl in: the parts are the components of the score, or the
// environment's reward, and each penalty with its coefficient as the weight.
// verl uses a configured list of keys and no penalties.

import (
	"fmt"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

func init() {
	Estimators.Add(registry.Entry{Name: "gdpo", Doc: "normalizes each part of the reward within the group", Params: []registry.Param{normByStd.Param}}, Estimator{Estimate: gdpo, InGroup: true, Needs: Needs{Parts: true}})
}

func gdpo(rows []data.Row, o Options) error {
	if len(rows) == 0 {
		return nil
	}
	parts := len(rows[0].Parts)
	for i := range rows {
		if n := len(rows[i].Parts); n != parts {
			return fmt.Errorf("row %d (%s) has %d parts of its reward, the first row %d", i, rows[i].UID, n, parts)
		}
	}
	groups, total := Groups(rows), make([]float64, len(rows))
	for p := range parts {
		for _, members := range groups {
			values := make([]float64, len(members))
			for k, i := range members {
				values[k] = rows[i].Parts[p].Value
			}
			for k, a := range centered(values, normByStd.In(o.Params)) {
				total[members[k]] += rows[members[k]].Parts[p].Weight * a
			}
		}
	}
	for i := range rows {
		setAll(&rows[i], total[i])
	}
	whiten(rows)
	return nil
}

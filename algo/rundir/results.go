package rundir

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/algo/track"
)

// Result is the result of a validation in one environment.
type Result struct {
	Env      string  `json:"env"` // track.Overall for all environments together
	Success  float64 `json:"success"`
	Low      float64 `json:"low"` // 95 % interval of the success rate, see Wilson
	High     float64 `json:"high"`
	Score    float64 `json:"score"`
	Turns    float64 `json:"turns"`
	Episodes float64 `json:"episodes"`
}

// Results returns the results of the environments from the validation's metrics, followed by
// the overall result if there are several.
func (v Validation) Results() []Result {
	var out []Result
	var overall Result
	for _, name := range slices.Sorted(maps.Keys(v.Metrics)) {
		env, ok := strings.CutPrefix(name, track.Validation+"/")
		if !ok {
			continue
		}
		if env, ok = strings.CutSuffix(env, "/success_rate"); !ok {
			continue
		}
		p := track.Validation + "/" + env + "/"
		r := Result{Env: env, Success: v.Metrics[name], Score: v.Metrics[p+"mean_score"], Turns: v.Metrics[p+"mean_turns"], Episodes: v.Metrics[p+"episodes"]}
		r.Low, r.High = Wilson(r.Success, r.Episodes)
		if env == track.Overall {
			overall = r
			continue
		}
		out = append(out, r)
	}
	if len(out) > 1 {
		out = append(out, overall)
	}
	return out
}

// Wilson returns the 95 % score interval of a proportion p of n trials (Wilson 1927).
func Wilson(p, n float64) (lo, hi float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.959963984540054
	centre := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, centre-half), min(1, centre+half)
}

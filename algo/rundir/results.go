package rundir

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/algo/track"
)

// Result is the result of a validation in one environment.
type Result struct {
	Env      string `json:"env"` // track.Overall for all environments together
	Success  Number `json:"success"`
	Low      Number `json:"low"` // 95 % interval of the success rate, see Wilson
	High     Number `json:"high"`
	Score    Number `json:"score"`
	Turns    Number `json:"turns"`
	Episodes Number `json:"episodes"`
}

// Number is a metric. Its JSON is null if it is not finite, as in metrics.jsonl.
type Number float64

// MarshalJSON encodes the number.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
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
		number := func(metric string) Number { return Number(v.Metrics[p+metric]) }
		r := Result{Env: env, Success: number("success_rate"), Score: number("mean_score"), Turns: number("mean_turns"), Episodes: number("episodes")}
		low, high := Wilson(float64(r.Success), float64(r.Episodes))
		r.Low, r.High = Number(low), Number(high)
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
// It is from 0 to 1 if p is not a proportion.
func Wilson(p, n float64) (lo, hi float64) {
	if !(n > 0 && p >= 0 && p <= 1) {
		return 0, 1
	}
	const z = 1.959963984540054
	centre := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, centre-half), min(1, centre+half)
}

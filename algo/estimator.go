package algo

import (
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// EstimatorOptions are what an advantage estimator may depend on besides the
// rows.
type EstimatorOptions struct {
	NormByStd bool    // divide by the group's standard deviation
	Gamma     float64 // discount per token
	Lam       float64 // GAE's lambda
}

// Estimator fills Advantages and Returns of every row from Rewards, Mask and
// UID. Both have one entry a token and are 0 where the mask is 0.
type Estimator func(rows []data.Row, o EstimatorOptions) error

// Estimators holds the advantage estimators by name.
var Estimators = registry.New[Estimator]("advantage estimator")

// ComputeAdvantages fills the rows' advantages with the estimator called name.
func ComputeAdvantages(name string, rows []data.Row, o EstimatorOptions) error {
	estimate, err := Estimators.Lookup(name)
	if err != nil {
		return err
	}
	return estimate(rows, o)
}

// rowScore is the sum of a row's token rewards.
func rowScore(r *data.Row) float64 {
	s := 0.0
	for _, x := range r.Rewards {
		s += float64(x)
	}
	return s
}

// broadcast returns v on every token whose mask is 1, 0 elsewhere.
func broadcast(v float64, mask []uint8) []float32 {
	out := make([]float32, len(mask))
	for i, m := range mask {
		if m == 1 {
			out[i] = float32(v)
		}
	}
	return out
}

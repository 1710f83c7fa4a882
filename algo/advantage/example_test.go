package advantage_test

import (
	"fmt"

	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/data"
)

// An estimator that compares every row with the best row of the batch.
func bestOfBatch(rows []data.Row, _ advantage.Options) error {
	best := 0.0
	for i := range rows {
		best = max(best, rows[i].RewardSum())
	}
	for i := range rows {
		r := &rows[i]
		r.Advantages = make([]float32, len(r.Mask))
		for t, m := range r.Mask {
			if m == 1 { // a token that the model sampled
				r.Advantages[t] = float32(r.RewardSum() - best)
			}
		}
		r.Returns = r.Advantages
	}
	return nil
}

func init() {
	advantage.Estimators.Register("best_of_batch", advantage.Estimator{Estimate: bestOfBatch})
}

func ExampleCompute() {
	rows := []data.Row{
		{UID: "a", Mask: []uint8{0, 1, 1}, Rewards: []float32{0, 0, 1}},
		{UID: "b", Mask: []uint8{0, 1, 0}, Rewards: []float32{0, .25, 0}},
	}
	if err := advantage.Compute("best_of_batch", rows, advantage.Options{}); err != nil {
		fmt.Println(err)
	}
	for _, r := range rows {
		fmt.Println(r.Advantages)
	}
	// Output:
	// [0 0 0]
	// [0 -0.75 0]
}

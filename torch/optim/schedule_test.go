package optim

import (
	"math"
	"testing"
)

func TestFactor(t *testing.T) {
	tests := []struct {
		name string
		s    Schedule
		want []float64 // factors at steps 0, 1, …
	}{
		{"constant", Schedule{Shape: Constant, Steps: 5}, []float64{1, 1, 1, 1, 1}},
		{"constant, one step of warm-up", Schedule{Shape: Constant, Warmup: 1, Steps: 5}, []float64{1, 1, 1}},
		{"constant with warm-up", Schedule{Shape: Constant, Warmup: 3, Steps: 5}, []float64{1. / 3, 2. / 3, 1, 1, 1}},
		{"linear", Schedule{Shape: Linear, Steps: 4}, []float64{1, .75, .5, .25, 0, 0}},
		{"linear with warm-up and floor", Schedule{Shape: Linear, Warmup: 2, Steps: 4, MinRatio: .5}, []float64{.5, 1, 1, .75, .5, .5}},
		{"cosine", Schedule{Shape: Cosine, Steps: 4}, []float64{1, .5 + math.Sqrt2/4, .5, .5 - math.Sqrt2/4, 0, 0}},
		{"cosine with warm-up and floor", Schedule{Shape: Cosine, Warmup: 2, Steps: 4, MinRatio: .2}, []float64{.5, 1, 1, .6, .2}},
		{"warm-up longer than the run", Schedule{Shape: Cosine, Warmup: 10, Steps: 4}, []float64{.1, .2, .3, .4}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.s.Base = 2
			for k, want := range test.want {
				if got := test.s.Factor(k); math.Abs(got-want) > 1e-12 {
					t.Errorf("factor of step %d is %v, want %v", k, got, want)
				}
				if got := test.s.LR(k); math.Abs(got-2*want) > 1e-12 {
					t.Errorf("learning rate of step %d is %v, want %v", k, got, 2*want)
				}
			}
		})
	}
}

package optim

import "math"

// The shapes of a Schedule after the warm-up.
const (
	Constant = "constant"
	Linear   = "linear"
	Cosine   = "cosine"
)

// Schedule is a learning rate over the steps of a run.
//
// It differs from OpenManus-RL, whose warm-up factor k/warmup is 0 at the first
// step, so that the step changes nothing; here the factor is (k+1)/warmup.
type Schedule struct {
	Shape    string  // Constant, Linear or Cosine
	Base     float64 // the learning rate at factor 1
	Warmup   int     // steps of warm-up; 0 for none
	Steps    int     // steps of the whole run, warm-up included
	MinRatio float64 // factor at the end of Linear and Cosine
}

// LR returns the learning rate of step k, counted from 0.
func (s Schedule) LR(k int) float64 { return s.Base * s.Factor(k) }

// Factor returns the multiplier of the base learning rate at step k, counted from 0:
//
//	min(1, (k+1)/max(1,warmup))                                during the warm-up, and always for Constant
//	1 - (1-r)·p                                                Linear, r = MinRatio
//	(1+r)/2 + (1-r)/2·cos(π·p)                                 Cosine
//
// where p = (k-warmup)/(steps-warmup) goes from 0 to less than 1, so that the last factor is above MinRatio.
func (s Schedule) Factor(k int) float64 {
	if k < s.Warmup || s.Shape == Constant {
		return min(1, float64(k+1)/float64(max(1, s.Warmup)))
	}
	p := min(1, float64(k-s.Warmup)/float64(max(1, s.Steps-s.Warmup)))
	if s.Shape == Linear {
		return 1 - (1-s.MinRatio)*p
	}
	return (1+s.MinRatio)/2 + (1-s.MinRatio)/2*math.Cos(math.Pi*p)
}

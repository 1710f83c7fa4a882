package kl

// Controllers of the coefficient β of the KL in the reward:
//
//	fixed     β
//	adaptive  β ← β (1 + e · rows / horizon),   e = clip(KL / target - 1, ±0.2)
//
// Source: Ziegler et al., "Fine-Tuning Language Models from Human Preferences",
// arXiv:1909.08593, section 2.2.

import (
	"fmt"
	"math"
)

// Kinds of controllers.
const (
	Fixed    = "fixed"
	Adaptive = "adaptive"
)

// Controller steers the coefficient. Its state is the coefficient itself.
type Controller struct {
	Kind    string
	Coef    float64
	Target  float64 // the KL that an adaptive one steers to
	Horizon float64 // rows over which it does so
}

// Validate says what is wrong with the controller.
func (c *Controller) Validate() error {
	switch c.Kind {
	case Fixed:
		return nil
	case Adaptive:
		if !(c.Target > 0 && c.Horizon > 0) {
			return fmt.Errorf("an adaptive KL controller has target %g and horizon %g, want both above 0", c.Target, c.Horizon)
		}
		return nil
	}
	return fmt.Errorf("unknown KL controller %q; there are %s and %s", c.Kind, Fixed, Adaptive)
}

// Update moves the coefficient after rows with a mean KL. A mean that is not
// finite, of log-probs of which one is not, says nothing and moves nothing.
func (c *Controller) Update(kl float64, rows int) {
	if c.Kind == Adaptive && !math.IsNaN(kl) && !math.IsInf(kl, 0) {
		c.Coef *= 1 + clamp(kl/c.Target-1, .2)*float64(rows)/c.Horizon
	}
}

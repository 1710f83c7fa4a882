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

// Controller adapts the coefficient of a KL. Coef is its only state.
type Controller struct {
	Kind    string
	Coef    float64
	Target  float64 // KL to which an adaptive controller adapts the coefficient
	Horizon float64 // number of rows over which the controller adapts
}

// Validate returns an error if the controller's values are invalid.
func (c *Controller) Validate() error {
	switch c.Kind {
	case Fixed:
		return nil
	case Adaptive:
		if !(c.Target > 0 && c.Horizon > 0) {
			return fmt.Errorf("adaptive KL controller: target %g and horizon %g must be positive", c.Target, c.Horizon)
		}
		return nil
	}
	return fmt.Errorf("unknown KL controller %q; use %s or %s", c.Kind, Fixed, Adaptive)
}

// Update adapts the coefficient after a step with the given mean KL and number of rows.
// It ignores a mean that is not finite.
func (c *Controller) Update(kl float64, rows int) {
	if c.Kind == Adaptive && !math.IsNaN(kl) && !math.IsInf(kl, 0) {
		c.Coef *= 1 + clamp(kl/c.Target-1, .2)*float64(rows)/c.Horizon
	}
}

package algo

// KL estimators on sampled tokens, with x = log π - log π_ref (spec 5.5;
// Schulman, "Approximating KL divergence", 2020):
//
//	k1   x                       unbiased, signed
//	abs  |x|
//	k2   x²/2
//	k3   e^(-x) + x - 1          unbiased, never negative
//
// The exponent is clamped to ±20 and k3 to [-10, 10], as verl does. These are
// for metrics; the loss has its own kernel with a gradient (torch.KLLoss).

import "math"

// KLEstimate returns the estimate of one token from x = log π - log π_ref.
func KLEstimate(kind string, x float64) float64 {
	switch kind {
	case "k1":
		return x
	case "abs":
		return math.Abs(x)
	case "k2":
		return x * x / 2
	default:
		v := math.Exp(math.Max(-20, math.Min(20, -x))) + x - 1
		return math.Max(-10, math.Min(10, v))
	}
}

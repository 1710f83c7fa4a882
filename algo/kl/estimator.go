package kl

// KL estimators on sampled tokens, with x = log π - log π_ref (spec 5.5;
// Schulman, "Approximating KL divergence", 2020):
//
//	k1   x                       unbiased, signed; verl: kl
//	abs  |x|
//	k2   x²/2                    verl: mse
//	k3   e^(-x) + x - 1          unbiased, never negative; verl: low_var_kl
//
// The exponent is clamped to ±20 and k3 to [-10, 10], as verl does.
//
// A name that ends in + has the value of the estimator and the gradient of k2, which is
// an unbiased gradient of the KL. The gradient of k1 has mean 0, and the gradient of k3
// is the gradient of KL(π_ref, π) (Tang and Munos, arXiv:2506.09477). verl has such names
// since 0.8.

import (
	"fmt"
	"math"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
	"github.com/openmanus/openmanus/torch"
)

const (
	maxExponent = 20
	maxK3       = 10
)

// Estimator computes a KL estimate from x = log π - log π_ref: Value for one token, Tensor for a tensor of tokens.
type Estimator struct {
	Value  func(x float64) float64
	Tensor func(x torch.Tensor) torch.Tensor
}

// Estimators holds the estimators of sampled tokens by name.
var Estimators = registry.New[Estimator]("KL estimator")

func init() {
	Estimators.Add(registry.Entry{Name: "k1", Aliases: []string{"kl"}}, Estimator{
		Value:  func(x float64) float64 { return x },
		Tensor: func(x torch.Tensor) torch.Tensor { return x },
	})
	Estimators.Register("abs", Estimator{Value: math.Abs, Tensor: torch.Tensor.Abs})
	Estimators.Add(registry.Entry{Name: "k2", Aliases: []string{"mse"}}, Estimator{
		Value:  func(x float64) float64 { return x * x / 2 },
		Tensor: func(x torch.Tensor) torch.Tensor { return x.Square().MulScalar(.5) },
	})
	Estimators.Add(registry.Entry{Name: "k3", Aliases: []string{"low_var_kl"}}, Estimator{
		Value: K3,
		Tensor: func(x torch.Tensor) torch.Tensor {
			v := x.Neg().Clamp(-maxExponent, maxExponent).Exp().Add(x).AddScalar(-1)
			return v.Clamp(-maxK3, maxK3)
		},
	})
}

func clamp(x, most float64) float64 { return max(-most, min(most, x)) }

// Full is the name of the KL over the whole vocabulary, which Exact computes.
const Full = "full"

// K3 returns the k3 estimate of one token.
func K3(x float64) float64 {
	return clamp(math.Exp(clamp(-x, maxExponent))+x-1, maxK3)
}

// Lookup returns the estimator with the given name or alias. The result straight is true for
// a name that ends in +: the gradient is then the gradient of k2.
func Lookup(name string) (e Estimator, straight bool, err error) {
	base, straight := strings.CutSuffix(name, "+")
	e, err = Estimators.Lookup(base)
	return e, straight, err
}

// Check returns an error if no estimator with the given name exists for the loss.
func Check(name string) error {
	if name == Full {
		return nil
	}
	_, _, err := Lookup(name)
	return err
}

// Loss returns the KL estimate of every token [M] as a term of a loss. Only logp [M] has
// a gradient.
func Loss(name string, logp, ref torch.Tensor) (torch.Tensor, error) {
	e, straight, err := Lookup(name)
	if err != nil {
		return torch.Tensor{}, fmt.Errorf("KL loss: %w", err)
	}
	x := logp.Sub(ref)
	v := e.Tensor(x)
	if !straight {
		return v, nil
	}
	square := x.Square().MulScalar(.5)
	return square.Sub(square.Detach()).Add(v.Detach()), nil
}

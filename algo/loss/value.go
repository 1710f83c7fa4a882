package loss

// The clipped value loss of a critic:
//
//	v̂ = clip(v, v_old - c, v_old + c);   ℓ = ½ max((v - R)², (v̂ - R)²)
//
// with R the return and v_old the value before the update. Source: Schulman et
// al., PPO's reference implementation; verl's compute_value_loss (spec 5.8).
//
// The mean is over the tokens of the whole mini-batch, as in verl since 0.9 with
// loss_agg_mode token-mean.

import "github.com/openmanus/openmanus/torch"

// Value returns the loss of every token [M] and the number of tokens at which the
// clipped term is the larger one. v, old and returns are [M]; only v has a
// gradient.
func Value(v, old, returns torch.Tensor, clip float64) (l, cut torch.Tensor) {
	plain := v.Sub(returns).Square()
	near := old.Add(v.Sub(old).Clamp(-clip, clip)).Sub(returns).Square()
	return plain.Maximum(near).MulScalar(.5), count(near.Gt(plain))
}

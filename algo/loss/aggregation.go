package loss

// Aggregations of token losses ℓ over the episodes i of a mini-batch. n_i is the number
// of tokens of episode i that are in the loss, in all its contexts (spec 5.7):
//
//	token-mean               Σ ℓ / Σ n_i
//	token-sum                Σ ℓ
//	seq-mean-token-sum       mean over episodes with n_i > 0 of Σ ℓ
//	seq-mean-token-mean      mean over episodes with n_i > 0 of Σ ℓ / n_i
//	seq-mean-token-sum-norm  mean over episodes with n_i > 0 of Σ ℓ / scale
//
// The last one is from Dr. GRPO (arXiv:2503.20783, section 3.2), as in TRL (dr_grpo) and
// verl; scale is loss_scale_factor. Versions of verl before 0.8 took a sum over episodes: to
// get that form, divide loss_scale_factor by the number of episodes of a mini-batch.
//
// token-sum is in verl since 0.9; its gradient grows with the mini-batch. All
// other aggregations are means.
//
// Every aggregation is a weighted sum of token losses. The weights depend only on
// the lengths in the mini-batch, so that the gradients of its micro-batches add up
// to the gradient of the mini-batch.
//
// Differs from verl in: episodes without a token in the loss are not counted;
// verl's global_batch_size includes them. A mini-batch without a token in the loss
// has loss 0.

import "github.com/openmanus/openmanus/data/registry"

// Names of aggregations.
const (
	TokenMean        = "token-mean"
	TokenSum         = "token-sum"
	SeqMeanTokenSum  = "seq-mean-token-sum"
	SeqMeanTokenMean = "seq-mean-token-mean"
	SeqSumNorm       = "seq-mean-token-sum-norm"
)

// Aggregation takes the number of tokens in the loss of every episode of a
// mini-batch and returns the weight of a token in an episode with n such tokens.
type Aggregation func(lens []int, scale float64) func(n int) float64

// Aggregations holds the aggregations by name.
var Aggregations = registry.New[Aggregation]("loss aggregation")

func init() {
	Aggregations.Register(TokenMean, func(lens []int, _ float64) func(int) float64 {
		tokens, _ := totals(lens)
		return func(int) float64 { return 1 / tokens }
	})
	Aggregations.Register(TokenSum, func([]int, float64) func(int) float64 {
		return func(int) float64 { return 1 }
	})
	Aggregations.Register(SeqMeanTokenSum, func(lens []int, _ float64) func(int) float64 {
		_, rows := totals(lens)
		return func(int) float64 { return 1 / rows }
	})
	Aggregations.Register(SeqMeanTokenMean, func(lens []int, _ float64) func(int) float64 {
		_, rows := totals(lens)
		return func(n int) float64 { return 1 / rows / float64(n) }
	})
	Aggregations.Register(SeqSumNorm, func(lens []int, scale float64) func(int) float64 {
		_, rows := totals(lens)
		return func(int) float64 { return 1 / rows / scale }
	})
}

// totals returns the number of tokens and the number of rows with tokens.
func totals(lens []int) (tokens, rows float64) {
	for _, n := range lens {
		tokens += float64(n)
		if n > 0 {
			rows++
		}
	}
	return tokens, rows
}

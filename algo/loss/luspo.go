package loss

import "github.com/openmanus/openmanus/data/registry"

// LUSPO: GSPO without its bias by length. The loss of a sequence is multiplied by
// its number of tokens, which is GSPO's token loss, summed over the sequence
// instead of averaged:
//
//	ℓ_t as in gspo;   mean over sequences of Σ_t ℓ_t
//
// Source: LUSPO, arXiv:2602.05261, and TRL's loss_type luspo. The mean over rows
// of sums over tokens belongs to it. Its gradient is that of a sum of tokens, so
// the bounds are gspo's, of the ratio, and the learning rate may have to be lower.
//
// Differs from TRL in: weights of a rollout correction by token multiply the
// gradient of their token, as in gspo, not that of the whole sequence.

func init() {
	Policies.Add(registry.Entry{Name: "luspo", Doc: "gspo without the division by the length", Params: clipBounds}, Policy{Loss: gspo, Agg: SeqMeanTokenSum})
}

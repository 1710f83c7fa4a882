package loss

import "github.com/openmanus/openmanus/data/registry"

// LUSPO: GSPO without its length bias. The loss of a sequence is multiplied by its
// number of tokens: GSPO's token losses are summed over the sequence instead of
// averaged.
//
//	ℓ_t as in gspo;   mean over sequences of Σ_t ℓ_t
//
// Source: LUSPO, arXiv:2602.05261, and TRL's loss_type luspo. It requires the
// aggregation seq-mean-token-sum. The bounds are the same as for gspo. Since the gradient
// is a sum over tokens, the learning rate may have to be lower than for gspo.
//
// Differs from TRL in: token weights of a rollout correction multiply the gradient
// of their token, as in gspo, instead of the gradient of the whole sequence.

func init() {
	Policies.Add(registry.Entry{Name: "luspo", Doc: "gspo without the division by the length", Params: clipBounds}, Policy{Loss: gspo, Agg: SeqMeanTokenSum})
}

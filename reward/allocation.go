package reward

import (
	"errors"

	"github.com/openmanus/openmanus/data/registry"
)

// Allocation spreads an episode's score over its tokens. Mask is 1 on sampled
// tokens; the result has the mask's length and is 0 where the mask is 0.
type Allocation func(score float64, mask []uint8) ([]float32, error)

// Allocations holds the allocations by name.
var Allocations = registry.New[Allocation]("reward allocation")

func init() { Allocations.Register("last_token", LastToken) }

// ErrNoSampledToken is returned for an episode in which the model said
// nothing: there is no token to reward.
var ErrNoSampledToken = errors.New("the episode has no sampled token")

// LastToken puts the whole score on the last sampled token.
func LastToken(score float64, mask []uint8) ([]float32, error) {
	rewards := make([]float32, len(mask))
	for i := len(mask) - 1; i >= 0; i-- {
		if mask[i] == 1 {
			rewards[i] = float32(score)
			return rewards, nil
		}
	}
	return nil, ErrNoSampledToken
}

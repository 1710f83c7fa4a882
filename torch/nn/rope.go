package nn

import (
	"fmt"
	"math"

	"github.com/openmanus/openmanus/torch"
)

// The kinds of RoPE. The values are those of rope_type in config.json.
const (
	RoPEDefault = "default"
	RoPELinear  = "linear"
	RoPELlama3  = "llama3"
)

// RoPEScaling stretches rotary frequencies to longer contexts. The zero value leaves them
// unchanged. The fields have the names of config.json; each Type uses only some fields.
type RoPEScaling struct {
	Type                 string  // default (also when empty), linear or llama3
	Factor               float64 // linear, llama3
	LowFreqFactor        float64 // llama3
	HighFreqFactor       float64 // llama3
	OriginalMaxPositions int     // llama3: original_max_position_embeddings
}

// RoPE turns positions into the angles of rotary embeddings (Su et al. 2021, eq. 15).
type RoPE struct {
	Theta   float64 // rope_theta
	HeadDim int
	RoPEScaling
}

// Validate returns an error that names a missing or invalid field.
func (r RoPE) Validate() error {
	if r.HeadDim < 2 || r.HeadDim%2 != 0 {
		return fmt.Errorf("nn: the head size %d must be even", r.HeadDim)
	}
	if !(r.Theta > 0) {
		return fmt.Errorf("nn: rope_theta %v must be positive", r.Theta)
	}
	switch r.Type {
	case "", RoPEDefault:
		return nil
	case RoPELinear, RoPELlama3:
		if !(r.Factor >= 1) {
			return fmt.Errorf("nn: the factor %v of rope_type %s must be at least 1", r.Factor, r.Type)
		}
	default:
		return fmt.Errorf("nn: rope_type %q is not supported; default, linear and llama3 are", r.Type)
	}
	if r.Type == RoPELlama3 && !(r.LowFreqFactor > 0 && r.HighFreqFactor > r.LowFreqFactor && r.OriginalMaxPositions > 0) {
		return fmt.Errorf("nn: rope_type llama3 needs 0 < low_freq_factor %v < high_freq_factor %v and original_max_position_embeddings %d > 0",
			r.LowFreqFactor, r.HighFreqFactor, r.OriginalMaxPositions)
	}
	return nil
}

// Frequencies returns the angle per position of each pair of a head's dimensions [HeadDim/2], rounded to float32 as in
// transformers.
//
// The type linear divides all frequencies by the factor (Chen et al. 2023). The type llama3 divides those with wavelengths
// longer than original/low_freq_factor, keeps those shorter than original/high_freq_factor, and blends in between.
func (r RoPE) Frequencies() []float32 {
	f := make([]float32, r.HeadDim/2)
	for i := range f {
		f[i] = float32(r.scaled(math.Pow(r.Theta, -float64(2*i)/float64(r.HeadDim))))
	}
	return f
}

func (r RoPE) scaled(f float64) float64 {
	switch r.Type {
	case RoPELinear:
		return f / r.Factor
	case RoPELlama3:
		turns := float64(r.OriginalMaxPositions) * f / (2 * math.Pi) // number of turns over the original context
		keep := (turns - r.LowFreqFactor) / (r.HighFreqFactor - r.LowFreqFactor)
		keep = min(1, max(0, keep))
		return f*keep + f/r.Factor*(1-keep)
	}
	return f
}

// Angles returns cos and sin [N,HeadDim/2] of the tokens' positions, for torch.RoPEHeads. As in
// transformers the angle is rounded to float32 before its cosine is taken.
func (r RoPE) Angles(s *torch.Scope, positions []int32) (cos, sin torch.Tensor) {
	f := r.Frequencies()
	n := len(positions) * len(f)
	c, d := make([]float32, 0, n), make([]float32, 0, n)
	for _, p := range positions {
		for _, w := range f {
			si, co := math.Sincos(float64(float32(p) * w))
			c, d = append(c, float32(co)), append(d, float32(si))
		}
	}
	return s.Float32s(c, len(positions), len(f)), s.Float32s(d, len(positions), len(f))
}

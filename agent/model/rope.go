package model

import (
	"fmt"
	"math"
	"sync"

	"github.com/openmanus/openmanus/torch"
)

// frequencies returns the angle each pair of a head's dimensions turns by per
// position, rounded to float32 as transformers keeps it.
//
// Sources: RoFormer (arXiv 2104.09864) eq. 15 for the default; linear divides
// by the factor (arXiv 2306.15595); llama3 does so only below a wavelength,
// blending in between (transformers' modeling_rope_utils).
func (c *Config) frequencies() []float32 {
	half := c.HeadDim / 2
	out := make([]float32, half)
	for i := range out {
		f := 1 / math.Pow(c.RopeTheta, float64(2*i)/float64(c.HeadDim))
		out[i] = float32(c.RopeScaling.scale(f))
	}
	return out
}

func (s RopeScaling) scale(f float64) float64 {
	switch s.Type {
	case "linear":
		return f / s.Factor
	case "llama3":
		old := float64(s.OriginalMaxPositionEmbeddings)
		wavelength := 2 * math.Pi / f
		if wavelength < old/s.HighFreqFactor {
			return f
		}
		if wavelength > old/s.LowFreqFactor {
			return f / s.Factor
		}
		smooth := (old/wavelength - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
		return (1-smooth)*f/s.Factor + smooth*f
	}
	return f
}

// rotary makes the cosines and sines of positions. Its table grows to the
// highest position seen.
type rotary struct {
	freqs []float32

	mu       sync.Mutex
	cos, sin []float32 // [positions, len(freqs)]; guarded by mu
}

// at returns cos and sin [N, HeadDim/2] for the given positions. The angle is
// rounded to float32 before its cosine is taken, as transformers does: at
// position 8000 the rounding is worth 5e-4.
func (r *rotary) at(s *torch.Scope, positions []int32) (cos, sin torch.Tensor) {
	half := len(r.freqs)
	c, n := make([]float32, len(positions)*half), make([]float32, len(positions)*half)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range positions {
		if p < 0 {
			panic(fmt.Sprintf("model: position %d is negative", p))
		}
		r.grow(int(p) + 1)
		copy(c[i*half:(i+1)*half], r.cos[int(p)*half:])
		copy(n[i*half:(i+1)*half], r.sin[int(p)*half:])
	}
	return s.Float32s(c, len(positions), half), s.Float32s(n, len(positions), half)
}

func (r *rotary) grow(positions int) {
	half := len(r.freqs)
	for p := len(r.cos) / half; p < positions; p++ {
		for _, f := range r.freqs {
			angle := float64(float32(p) * f)
			sin, cos := math.Sincos(angle)
			r.cos = append(r.cos, float32(cos))
			r.sin = append(r.sin, float32(sin))
		}
	}
}

package nn

import (
	"math"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

func TestMain(m *testing.M) { torchtest.Main(m) }

func TestLayers(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		x := s.Float32s([]float32{1, 2, 3, -1}, 2, 2)
		l := Linear{Weight: s.Float32s([]float32{1, 0, 0, 1, 1, 1}, 3, 2), Bias: s.Float32s([]float32{0, 0, 10}, 3)}
		torchtest.Close(t, l.Forward(x), s.Float32s([]float32{1, 2, 13, 3, -1, 12}, 2, 3), 1e-6)
		l.Bias = torch.Tensor{}
		torchtest.Close(t, l.Forward(x), s.Float32s([]float32{1, 2, 3, 3, -1, 2}, 2, 3), 1e-6)

		e := Embedding{Weight: x}
		torchtest.Close(t, e.Forward(s.Int32s([]int32{1, 0, 1}, 3)), s.Float32s([]float32{3, -1, 1, 2, 3, -1}, 3, 2), 0)

		n := RMSNorm{Weight: s.Float32s([]float32{1, 2}, 2), Eps: .5}
		r0, r1 := 1/math.Sqrt(3), 1/math.Sqrt(5.5) // the mean squares are 2.5 and 5, Eps is 0.5
		torchtest.Values(t, n.Forward(x), 1e-6, r0, 4*r0, 3*r1, -2*r1)

		id := Linear{Weight: s.Float32s([]float32{1, 0, 0, 1}, 2, 2)}
		m := SwiGLU{GateProj: id, UpProj: Linear{Weight: id.Weight.MulScalar(2)}, DownProj: Linear{Weight: id.Weight.MulScalar(3)}}
		silu := func(v float64) float64 { return v / (1 + math.Exp(-v)) }
		want := []float64{6 * silu(1), 12 * silu(2), 18 * silu(3), -6 * silu(-1)}
		torchtest.Values(t, m.Forward(&Pass{}, x), 1e-6, want...)
		s.NoGrad(func() { torchtest.Values(t, m.Forward(&Pass{KV: &KV{}}, x), 1e-6, want...) })
	})
}

// TestRoPEFrequencies checks Frequencies against numbers computed by hand from the formulas.
func TestRoPEFrequencies(t *testing.T) {
	for _, test := range []struct {
		name string
		r    RoPE
		want []float64
	}{
		{"default", RoPE{Theta: 10000, HeadDim: 8}, []float64{1, .1, .01, .001}},
		{"linear", RoPE{Theta: 10000, HeadDim: 8, RoPEScaling: RoPEScaling{Type: RoPELinear, Factor: 4}}, []float64{.25, .025, .0025, .00025}},
		// The wavelengths are 6.28, 62.8, 628 and 6283. Frequencies with wavelengths below 64/4 = 16 are kept,
		// those above 64/1 are divided by 8, and the frequency of wavelength 62.8 is blended.
		{"llama3", RoPE{Theta: 10000, HeadDim: 8, RoPEScaling: RoPEScaling{Type: RoPELlama3, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 64}},
			[]float64{1, .1 * (.0061972 + (1-.0061972)/8), .00125, .000125}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.r.Validate(); err != nil {
				t.Fatal(err)
			}
			for i, got := range test.r.Frequencies() {
				if math.Abs(float64(got)-test.want[i]) > 1e-6*test.want[i] {
					t.Errorf("frequency %d is %v, want %v", i, got, test.want[i])
				}
			}
		})
	}
}

func TestRoPEAngles(t *testing.T) {
	r := RoPE{Theta: 100, HeadDim: 4}
	torchtest.Run(t, func(s *torch.Scope) {
		cos, sin := r.Angles(s, []int32{0, 7})
		torchtest.Values(t, cos, 1e-6, 1, 1, math.Cos(7), math.Cos(.7))
		torchtest.Values(t, sin, 1e-6, 0, 0, math.Sin(7), math.Sin(.7))
	})
}

func TestRoPEValidate(t *testing.T) {
	for want, r := range map[string]RoPE{
		"head size 3":              {Theta: 1, HeadDim: 3},
		"rope_theta 0":             {HeadDim: 4},
		`rope_type "yarn"`:         {Theta: 1, HeadDim: 4, RoPEScaling: RoPEScaling{Type: "yarn"}},
		"factor 0 of rope_type li": {Theta: 1, HeadDim: 4, RoPEScaling: RoPEScaling{Type: RoPELinear}},
		"low_freq_factor 4 < high": {Theta: 1, HeadDim: 4, RoPEScaling: RoPEScaling{Type: RoPELlama3, Factor: 8, LowFreqFactor: 4, HighFreqFactor: 1, OriginalMaxPositions: 64}},
	} {
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", r, err, want)
		}
	}
}

const (
	dim, headDim, heads, kvHeads = 6, 4, 4, 2
	tokens                       = 7
)

var (
	offsets   = []int{0, 3, tokens}
	positions = []int32{0, 1, 2, 0, 1, 2, 3}
	rope      = RoPE{Theta: 100, HeadDim: headDim}
)

// attentionOf makes a layer from the weights of q, k, v and o, the bias of q, and the norms of q and k.
func attentionOf(w []torch.Tensor) *Attention {
	return &Attention{
		QProj: Linear{Weight: w[0], Bias: w[4]}, KProj: Linear{Weight: w[1]}, VProj: Linear{Weight: w[2]}, OProj: Linear{Weight: w[3]},
		QNorm: &RMSNorm{Weight: w[5], Eps: 1e-6}, KNorm: &RMSNorm{Weight: w[6], Eps: 1e-6}, HeadDim: headDim,
	}
}

func attentionInputs() []torchtest.Input {
	return []torchtest.Input{
		torchtest.Rand(1, heads*headDim, dim), torchtest.Rand(2, kvHeads*headDim, dim), torchtest.Rand(3, kvHeads*headDim, dim),
		torchtest.Rand(4, dim, heads*headDim), torchtest.Rand(5, heads*headDim),
		torchtest.Rand(6, headDim), torchtest.Rand(7, headDim), torchtest.Rand(8, tokens, dim),
	}
}

// naive computes attention from the definition, for one sequence and head at a time.
func naive(s *torch.Scope, in []torch.Tensor) torch.Tensor {
	x, eps := in[7], 1e-6
	norm := func(h, w torch.Tensor) torch.Tensor {
		mean := h.Square().SumDim(-1, true).MulScalar(1 / float64(h.Size(-1)))
		return h.Div(mean.AddScalar(eps).Sqrt()).Mul(w)
	}
	cos, sin := rope.Angles(s, positions)
	cos, sin = cos.To(x.DType()), sin.To(x.DType())
	turn := func(h torch.Tensor) torch.Tensor {
		a, b := h.Narrow(1, 0, headDim/2), h.Narrow(1, headDim/2, headDim/2)
		return torch.Cat([]torch.Tensor{a.Mul(cos).Sub(b.Mul(sin)), b.Mul(cos).Add(a.Mul(sin))}, 1)
	}
	q, k, v := x.Linear(in[0], in[4]), x.Linear(in[1], torch.Tensor{}), x.Linear(in[2], torch.Tensor{})
	var out []torch.Tensor
	for h := range heads {
		g := h / (heads / kvHeads)
		qh := turn(norm(q.Narrow(1, h*headDim, headDim), in[5]))
		kh := turn(norm(k.Narrow(1, g*headDim, headDim), in[6]))
		vh := v.Narrow(1, g*headDim, headDim)
		var rows []torch.Tensor
		for i := range len(offsets) - 1 {
			for j := offsets[i]; j < offsets[i+1]; j++ {
				n := j - offsets[i] + 1
				p := qh.Narrow(0, j, 1).MatMul(kh.Narrow(0, offsets[i], n).Transpose(0, 1)).MulScalar(.5).LogSoftmax(1).Exp()
				rows = append(rows, p.MatMul(vh.Narrow(0, offsets[i], n)))
			}
		}
		out = append(out, torch.Cat(rows, 0))
	}
	return torch.Cat(out, 1).Linear(in[3], torch.Tensor{})
}

func TestAttention(t *testing.T) {
	packed := func(s *torch.Scope, in []torch.Tensor) torch.Tensor {
		cos, sin := rope.Angles(s, positions)
		return attentionOf(in).Forward(&Pass{Cos: cos, Sin: sin, Offsets: offsets}, in[7])
	}
	torchtest.Same(t, torch.Float32, packed, naive, 2e-5, attentionInputs()...)
	torchtest.Same(t, torch.Float64, packed, naive, 1e-6, attentionInputs()...)
}

// TestAttentionDecode checks that decoding token by token with cache blocks in any order gives the results of the
// packed form.
func TestAttentionDecode(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		s.NoGrad(func() {
			var in []torch.Tensor
			for _, i := range attentionInputs() {
				in = append(in, s.Float64s(i.Data, i.Shape...).To(torch.Float32))
			}
			a, x := attentionOf(in), in[7]
			cos, sin := rope.Angles(s, positions)
			want := a.Forward(&Pass{Cos: cos, Sin: sin, Offsets: offsets}, x)

			const block = 2
			kc, vc := s.Zeros(torch.Float32, 5, block, kvHeads, headDim), s.Zeros(torch.Float32, 5, block, kvHeads, headDim)
			blocks := [][]int32{{4, 1}, {0, 3}}
			for seq := range blocks {
				for j := offsets[seq]; j < offsets[seq+1]; j++ {
					p := int(positions[j])
					slot := int64(blocks[seq][p/block])*block + int64(p%block)
					pass := &Pass{Cos: cos.Narrow(0, j, 1), Sin: sin.Narrow(0, j, 1), KV: &KV{
						K: kc, V: vc, Slots: []int64{slot},
						Seqs: torch.CachedSeqs{QOffsets: []int{0, 1}, Lens: []int{p + 1}, Blocks: [][]int32{blocks[seq][:p/block+1]}},
					}}
					got := a.Forward(pass, x.Narrow(0, j, 1))
					torchtest.Close(t, got, want.Narrow(0, j, 1), 1e-5)
				}
			}
		})
	})
}

// TestInfer checks that the kernel for few rows and the matrix product for many rows give the same results.
func TestInfer(t *testing.T) {
	torchtest.Run(t, func(s *torch.Scope) {
		s.NoGrad(func() {
			const in, out = 12, 10
			random := func(seed uint64, shape ...int) torch.Tensor { return s.RandN(seed, shape...) }
			with := Linear{Weight: random(1, out, in), Bias: random(2, out)}
			without := Linear{Weight: random(3, in, in)}
			for _, rows := range []int{1, torch.SkinnyRows, torch.SkinnyRows + 1} {
				x := random(4, rows, in)
				got := infer(x, &with, &without)
				torchtest.Close(t, got[0], with.Forward(x), 1e-5)
				torchtest.Close(t, got[1], without.Forward(x), 1e-5)
			}
		})
	})
}

package model

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/nn"
)

// tiny lists the models of testdata (make_goldens.py).
var tiny = []string{"llama", "llama-tied", "llama-linear", "qwen2", "qwen3"}

// tolerance is the required accuracy of log-probs in float32.
const tolerance = 1e-4

func TestLogProbsMatchTransformers(t *testing.T) {
	ctx := context.Background()
	for _, name := range tiny {
		t.Run(name, func(t *testing.T) {
			m := openTiny(t, newThread(t), name, torch.Float32)
			g := readJSON[golden](t, filepath.Join("testdata", name, "golden.json"))
			packed, err := m.LogProbs(ctx, 1, g.ids()...)
			if err != nil {
				t.Fatal(err)
			}
			for i, seq := range g.Sequences {
				if d := maxDiff(t, packed[i], seq.LogProbs); !(d <= tolerance) {
					t.Errorf("sequence %d, packed: log-probs differ by %.2g from the golden", i, d)
				}
				alone, err := m.LogProbs(ctx, 1, seq.IDs)
				if err != nil {
					t.Fatal(err)
				}
				if d := maxDiff(t, alone[0], widen(packed[i])); !(d <= 1e-5) {
					t.Errorf("sequence %d: log-probs alone and packed differ by %.2g", i, d)
				}
				for _, chunk := range []int{1, 5, 64} {
					cached, err := m.DecodeLogProbs(ctx, 1, seq.IDs, chunk)
					if err != nil {
						t.Fatal(err)
					}
					if d := maxDiff(t, cached, seq.LogProbs); !(d <= tolerance) {
						t.Errorf("sequence %d, decoded in chunks of %d: log-probs differ by %.2g from the golden", i, chunk, d)
					}
				}
			}
		})
	}
}

func TestGradientsMatchTransformers(t *testing.T) {
	for _, name := range tiny {
		t.Run(name, func(t *testing.T) {
			th := newThread(t)
			m := openTiny(t, th, name, torch.Float32)
			g := readJSON[golden](t, filepath.Join("testdata", name, "golden.json"))
			run(t, th, func(s *torch.Scope) {
				meanNLL(s, m, g).Backward()
				want := readGrads(t, s, filepath.Join("testdata", name, "grads.safetensors"))
				for _, p := range m.Params() {
					w, ok := want[p.Name]
					if !ok {
						t.Errorf("no golden gradient for %s", p.Name)
						continue
					}
					delete(want, p.Name)
					got := p.Tensor.Grad()
					if got.None() {
						t.Errorf("%s has no gradient", p.Name)
						continue
					}
					rel := got.Sub(w).Square().Sum().Sqrt().Item() / w.Square().Sum().Sqrt().Item()
					if !(rel <= 1e-4) {
						t.Errorf("relative error of the gradient of %s is %.2g", p.Name, rel)
					}
				}
				for n := range want {
					t.Errorf("parameter %s has no gradient here", n)
				}
			})
		})
	}
}

// meanNLL returns the mean negative log-likelihood of all predicted tokens.
// It switches the gradients of the parameters on.
func meanNLL(s *torch.Scope, m *Model, g golden) torch.Tensor {
	m.SetTrainable(true)
	ids, positions, offsets := Pack(g.ids()...)
	logp, _ := m.TokenLogProbs(m.Forward(s, ids, positions, offsets), NextTokens(ids, offsets), nil, 1, false)
	n := 0
	for _, seq := range g.Sequences {
		n += len(seq.LogProbs)
	}
	return logp.Sum().MulScalar(-1 / float64(n))
}

// TestShadowTrains checks that gradients moved from a copy to the model equal
// the gradients that the model computes itself.
func TestShadowTrains(t *testing.T) {
	ctx := context.Background()
	th := newThread(t)
	m, own := openTiny(t, th, "qwen3", torch.Float32), openTiny(t, th, "qwen3", torch.Float32)
	g := readJSON[golden](t, filepath.Join("testdata", "qwen3", "golden.json"))
	for _, tt := range []struct {
		dt        torch.DType
		tolerance float64
	}{{torch.Float32, 1e-6}, {torch.BFloat16, 0.1}} {
		t.Run(tt.dt.String(), func(t *testing.T) {
			shadow, err := m.Shadow(ctx, tt.dt)
			if err != nil {
				t.Fatal(err)
			}
			defer shadow.Close()
			run(t, th, func(s *torch.Scope) {
				m.SetTrainable(true)
				for range 2 { // two micro-batches
					s.Do(func(s *torch.Scope) {
						meanNLL(s, shadow, g).Backward()
						m.MoveGrads(s, shadow)
						meanNLL(s, own, g).Backward()
					})
				}
				want := own.Params()
				for i, p := range m.Params() {
					w := want[i].Tensor.Grad()
					rel := p.Tensor.Grad().Sub(w).Square().Sum().Sqrt().Item() / w.Square().Sum().Sqrt().Item()
					if !(rel <= tt.tolerance) {
						t.Errorf("relative error of the gradient of %s is %.2g", p.Name, rel)
					}
					if !shadow.Params()[i].Tensor.Grad().None() {
						t.Errorf("the shadow kept its gradient of %s", p.Name)
					}
					p.Tensor.ZeroGrad()
					want[i].Tensor.ZeroGrad()
				}
				s.NoGrad(func() { m.Params()[3].Tensor.Add_(s.Ones(torch.Float32), 1) })
				shadow.CopyFrom(s, m)
				d := shadow.Params()[3].Tensor.To(torch.Float32).Sub(m.Params()[3].Tensor).Abs().Max().Item()
				if !(d < 0.02) {
					t.Errorf("weights of the shadow differ by %v after CopyFrom", d)
				}
				s.NoGrad(func() { m.CopyFrom(s, own) })
			})
		})
	}
}

// TestBFloat16IsClose checks that the error of a bfloat16 copy is small.
func TestBFloat16IsClose(t *testing.T) {
	for _, name := range tiny {
		t.Run(name, func(t *testing.T) {
			m := openTiny(t, newThread(t), name, torch.BFloat16)
			g := readJSON[golden](t, filepath.Join("testdata", name, "golden.json"))
			got, err := m.LogProbs(context.Background(), 1, g.ids()...)
			if err != nil {
				t.Fatal(err)
			}
			sum, n := 0.0, 0
			for i, seq := range g.Sequences {
				for j := range seq.LogProbs {
					sum += abs(float64(got[i][j]) - seq.LogProbs[j])
					n++
				}
				cached, err := m.DecodeLogProbs(context.Background(), 1, seq.IDs, 1)
				if err != nil {
					t.Fatal(err)
				}
				if d := maxDiff(t, cached, widen(got[i])); !(d < 0.3) {
					t.Errorf("sequence %d: log-probs packed and cached differ by %.2g", i, d)
				}
			}
			if mean := sum / float64(n); !(mean < 0.1) {
				t.Errorf("log-probs differ by %.3g on average from the golden", mean)
			}
		})
	}
}

func TestNewIsRandomAndRepeatable(t *testing.T) {
	ctx := context.Background()
	th := newThread(t)
	c := Config{ModelType: "qwen2", VocabSize: 50, HiddenSize: 32, IntermediateSize: 48, NumHiddenLayers: 2, NumAttentionHeads: 4,
		NumKeyValueHeads: 2, HeadDim: 8, MaxPositionEmbeddings: 64, RMSNormEps: 1e-6, RopeTheta: 10000, InitializerRange: 0.02}
	hash := map[string]string{}
	for _, seed := range []uint64{1, 2, 1} {
		m, err := New(ctx, th, c, seed, torch.Float32)
		if err != nil {
			t.Fatal(err)
		}
		h, err := m.Hash(ctx)
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint(seed)
		if before, ok := hash[key]; ok && before != h {
			t.Errorf("seed %d: the first model has hash %s, the second %s", seed, before, h)
		}
		hash[key] = h
		run(t, th, func(*torch.Scope) {
			for _, w := range m.declared.weights {
				std := w.field.Square().Mean().Sqrt().Item()
				want := 0.02
				if w.init == nn.Ones {
					want = 1
				} else if w.init == nn.Zeros {
					want = 0
				}
				if abs(std-want) > 0.1*want {
					t.Errorf("%s has standard deviation %v, want about %v", w.name, std, want)
				}
			}
		})
		m.Close()
	}
	if hash["1"] == hash["2"] {
		t.Error("two seeds gave the same weights")
	}
	n, err := c.NumParameters()
	// embedding and head; for each layer attention with biases, MLP and two norms; last norm
	if want := 2*50*32 + 2*(32*32+32+2*(16*32+16)+32*32+3*32*48+2*32) + 32; err != nil || n != want {
		t.Errorf("NumParameters is %d, %v; want %d", n, err, want)
	}
}

func TestCheckIDs(t *testing.T) {
	c := Config{VocabSize: 10, MaxPositionEmbeddings: 3}
	for _, tt := range []struct {
		name string
		ids  []int32
		ok   bool
	}{
		{"fits", []int32{0, 9, 5}, true}, {"empty", nil, true}, {"too long", []int32{1, 1, 1, 1}, false},
		{"too high", []int32{10}, false}, {"negative", []int32{-1}, false},
	} {
		if err := c.CheckIDs(tt.ids); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

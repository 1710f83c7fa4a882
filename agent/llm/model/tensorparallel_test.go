package model

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/dist/disttest"
	"github.com/openmanus/openmanus/torch/nn"
	"github.com/openmanus/openmanus/torch/shard"
)

// wide returns a configuration that can be tensor parallel over 4 ranks. Its vocabulary is not a multiple of 2 or 4.
func wide(modelType string, kvHeads int, tied bool) Config {
	return Config{
		ModelType: modelType, VocabSize: 301, HiddenSize: 64, IntermediateSize: 96, NumHiddenLayers: 2,
		NumAttentionHeads: 8, NumKeyValueHeads: kvHeads, HeadDim: 16, MaxPositionEmbeddings: 128, RMSNormEps: 1e-6,
		RopeTheta: 10000, RopeScaling: nn.RoPEScaling{}, TieWordEmbeddings: tied, InitializerRange: 0.3,
	}
}

// saveModel writes a model of random weights, biases included, and returns its folder.
func saveModel(t *testing.T, c Config, dt torch.DType) string {
	t.Helper()
	m, err := New(t.Context(), newThread(t), c, 1, dt)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	run(t, m.thread, func(s *torch.Scope) {
		for i, p := range m.Params() {
			if p.Tensor.Dim() == 1 { // New gives biases 0 and norms 1
				p.Tensor.Copy_(s.RandN(uint64(i), p.Tensor.Size(0)).MulScalar(0.2).AddScalar(0.5))
			}
		}
	})
	dir := t.TempDir()
	if err := m.SaveWeights(t.Context(), dir, dt); err != nil {
		t.Fatal(err)
	}
	return dir
}

// cachedLogits returns the logits after every token of two sequences: prompts in one batch, then two decoding steps.
func cachedLogits(m *Model) (logits []float64, err error) {
	ctx := context.Background()
	cache, err := m.NewCache(ctx, 4, 16)
	if err != nil {
		return nil, err
	}
	defer cache.Close()
	decode := func(b DecodeBatch) error {
		return torch.Run(ctx, m.thread, func(s *torch.Scope) error {
			s.NoGrad(func() { logits = append(logits, m.Logits(m.Decode(s, cache, b)).ToFloat64s()...) })
			return nil
		})
	}
	b := DecodeBatch{Seqs: torch.CachedSeqs{QOffsets: []int{0, 20, 27}, Lens: []int{20, 7}, Blocks: [][]int32{{0, 1}, {2}}}}
	for i := range 27 {
		p, slot := i, i
		if i >= 20 {
			p, slot = i-20, i-20+32
		}
		b.IDs, b.Positions, b.Slots = append(b.IDs, int32(i*11%301)), append(b.Positions, int32(p)), append(b.Slots, int64(slot))
		b.Outputs = append(b.Outputs, int64(i))
	}
	if err := decode(b); err != nil {
		return nil, err
	}
	for i := range 2 {
		b := DecodeBatch{
			IDs: []int32{300, int32(150 + i)}, Positions: []int32{int32(20 + i), int32(7 + i)}, Slots: []int64{int64(20 + i), int64(39 + i)},
			Seqs:    torch.CachedSeqs{QOffsets: []int{0, 1, 2}, Lens: []int{21 + i, 8 + i}, Blocks: [][]int32{{0, 1}, {2}}},
			Outputs: []int64{0, 1},
		}
		if err := decode(b); err != nil {
			return nil, err
		}
	}
	return logits, nil
}

// bytesOf returns the size of the tensors of m, the adapters included.
func bytesOf(m *Model) (n int) {
	for _, p := range append(m.Params(), m.Adapters()...) {
		n += p.Tensor.Numel() * p.Tensor.DType().Size()
	}
	return n
}

// TestTensorParallelModels checks that tensor-parallel models have the logits and the hash of the whole model, and that
// the ranks have the expected part of the weights.
func TestTensorParallelModels(t *testing.T) {
	for _, test := range []struct {
		name  string
		c     Config
		dt    torch.DType
		limit float64
	}{
		{"llama, tied", wide("llama", 4, true), torch.Float64, 1e-10},
		{"llama, float32", wide("llama", 8, false), torch.Float32, 1e-4},
		{"qwen2, biases", wide("qwen2", 4, false), torch.Float64, 1e-10},
		{"qwen2, 2 key and value heads", wide("qwen2", 2, true), torch.Float64, 1e-10},
		{"qwen3, norms of heads, 1 key and value head", wide("qwen3", 1, true), torch.Float64, 1e-10},
		{"llama, bfloat16", wide("llama", 4, true), torch.BFloat16, 0.2},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := saveModel(t, test.c, test.dt)
			whole, err := Open(t.Context(), newThread(t), dir, Options{DType: test.dt, TokenizerOptional: true})
			if err != nil {
				t.Fatal(err)
			}
			defer whole.Close()
			want, err := cachedLogits(whole.Model)
			if err != nil {
				t.Fatal(err)
			}
			hash, err := whole.Model.Hash(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 2, 4} {
				disttest.Run(t, n, func(th *torch.Thread, g *dist.Group) error {
					b, err := Open(t.Context(), th, dir, Options{DType: test.dt, TokenizerOptional: true, Ranks: g})
					if err != nil {
						return err
					}
					defer b.Close()
					m := b.Model
					got, err := cachedLogits(m)
					if err != nil {
						return err
					}
					if d := worst(got, want); !(d <= test.limit) {
						t.Errorf("rank %d of %d: logits differ by %g, want at most %g", g.Rank(), n, d, test.limit)
					}
					if h, err := m.Hash(t.Context()); err != nil || h != hash {
						t.Errorf("rank %d of %d: hash %s, %v, want %s", g.Rank(), n, h, err, hash)
					}
					// Key and value heads are repeated if there are fewer than ranks; norms and their biases are on every rank.
					kv := max(n/test.c.NumKeyValueHeads, 1)
					if got, want := m.CacheBytesPerToken(), whole.Model.CacheBytesPerToken()*kv/n; got != want {
						t.Errorf("rank %d of %d: the cache takes %d bytes a token, want %d", g.Rank(), n, got, want)
					}
					if got, limit := bytesOf(m), bytesOf(whole.Model)*11/10/n; kv == 1 && got > limit {
						t.Errorf("rank %d of %d: the weights take %d bytes, want at most %d", g.Rank(), n, got, limit)
					}
					return nil
				})
			}
		})
	}
}

// worst returns the largest difference, or NaN if the lengths differ.
func worst(a, b []float64) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	d := 0.0
	for i := range a {
		d = max(d, math.Abs(a[i]-b[i]))
	}
	return d
}

// TestTensorParallelAdapters checks the adapters of tensor-parallel models, with the check of their base, and after they are merged.
func TestTensorParallelAdapters(t *testing.T) {
	c := wide("qwen2", 4, true)
	dir, adapters := saveModel(t, c, torch.Float64), t.TempDir()
	ctx := t.Context()
	whole, err := Open(ctx, newThread(t), dir, Options{DType: torch.Float64, TokenizerOptional: true})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if err := whole.Model.AddLoRA(ctx, LoRA{Rank: 3, Alpha: 6, Targets: []string{AllLinear}, Base: dir}, 1); err != nil {
		t.Fatal(err)
	}
	run(t, whole.Model.thread, func(s *torch.Scope) {
		for i, p := range whole.Model.Adapters() {
			p.Tensor.Copy_(s.RandN(uint64(i), p.Tensor.Shape()...).MulScalar(0.1))
		}
	})
	if err := whole.Model.SaveAdapters(ctx, adapters); err != nil {
		t.Fatal(err)
	}
	want, err := cachedLogits(whole.Model)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{2, 4} {
		disttest.Run(t, n, func(th *torch.Thread, g *dist.Group) error {
			b, err := Open(ctx, th, adapters, Options{DType: torch.Float64, TokenizerOptional: true, Ranks: g})
			if err != nil {
				return err
			}
			defer b.Close()
			for _, state := range []string{"adapters", "merged"} {
				got, err := cachedLogits(b.Model)
				if err != nil {
					return err
				}
				if d := worst(got, want); !(d <= 1e-10) {
					t.Errorf("rank %d of %d, %s: logits differ by %g", g.Rank(), n, state, d)
				}
				if err := b.Model.Merge(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}

	// The adapters name another base now.
	other := wide("qwen2", 4, true)
	other.InitializerRange = 0.4
	wrong := saveModel(t, other, torch.Float64)
	text, err := os.ReadFile(filepath.Join(adapters, adapterConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(adapters, adapterConfigFile), []byte(strings.ReplaceAll(string(text), dir, wrong)), 0o644); err != nil {
		t.Fatal(err)
	}
	disttest.Run(t, 2, func(th *torch.Thread, g *dist.Group) error {
		if b, err := Open(ctx, th, adapters, Options{DType: torch.Float64, TokenizerOptional: true, Ranks: g}); err == nil {
			b.Close()
			return fmt.Errorf("rank %d: the adapters of another base were opened", g.Rank())
		}
		return nil
	})
}

// TestTensorParallel checks the parts of weights in memory, of a whole model and of one that is sharded over the same ranks.
func TestTensorParallel(t *testing.T) {
	c := wide("qwen2", 2, false)
	for _, sharded := range []bool{false, true} {
		disttest.Run(t, 4, func(th *torch.Thread, g *dist.Group) error {
			ctx := t.Context()
			source, err := New(ctx, th, c, 7, torch.Float64)
			if err != nil {
				return err
			}
			defer source.Close()
			changed, err := New(ctx, th, c, 8, torch.Float64)
			if err != nil {
				return err
			}
			defer changed.Close()
			want, err := source.Hash(ctx)
			if err != nil {
				return err
			}
			if sharded {
				if err := source.Shard(ctx, shard.Options{Group: g, Level: shard.Weights, Compute: torch.Float64}); err != nil {
					return err
				}
			}
			m, err := source.TensorParallel(ctx, g, torch.Float64)
			if err != nil {
				return err
			}
			defer m.Close()
			check := func(what string, m *Model) {
				if got, err := m.Hash(ctx); err != nil || got != want {
					t.Errorf("rank %d, sharded %v: %s: hash %s, %v, want %s", g.Rank(), sharded, what, got, err, want)
				}
			}
			check("after Cut", m)
			copyTo := func(m, from *Model) error {
				return torch.Run(ctx, th, func(s *torch.Scope) error { m.CopyWeights(s, from); return nil })
			}
			if err := copyTo(m, changed); err != nil {
				return err
			}
			check("source after a change of its parts", source)
			if want, err = changed.Hash(ctx); err != nil {
				return err
			}
			check("after CopyWeights", m)
			if err := copyTo(source, changed); err != nil {
				return err
			}
			if err := copyTo(m, source); err != nil {
				return err
			}
			check("after CopyWeights of the source", m)
			return nil
		})
	}
}

// TestTensorParallelGGUF checks a tensor-parallel model whose weights are read from a GGUF file.
func TestTensorParallelGGUF(t *testing.T) {
	files, err := filepath.Glob("testdata/gguf/*.gguf")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			whole, err := Open(t.Context(), newThread(t), file, Options{TokenizerOptional: true})
			if err != nil {
				t.Fatal(err)
			}
			defer whole.Close()
			want, err := whole.Model.Hash(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			disttest.Run(t, 2, func(th *torch.Thread, g *dist.Group) error {
				b, err := Open(t.Context(), th, file, Options{TokenizerOptional: true, Ranks: g})
				if err != nil {
					return err
				}
				defer b.Close()
				got, err := b.Model.Hash(t.Context())
				if got != want {
					t.Errorf("rank %d: hash %s, want %s", g.Rank(), got, want)
				}
				return err
			})
		})
	}
}

func TestInvalidCuts(t *testing.T) {
	with := func(change func(*Config)) Config {
		c := wide("llama", 4, false)
		change(&c)
		return c
	}
	for _, test := range []struct {
		name string
		c    Config
		n    int
		want string
	}{
		{"query heads", with(func(c *Config) {}), 3, "num_attention_heads 8"},
		{"key and value heads", with(func(c *Config) { c.NumAttentionHeads, c.NumKeyValueHeads = 12, 3 }), 2, "num_key_value_heads 3"},
		{"inner width", with(func(c *Config) { c.IntermediateSize = 98 }), 4, "intermediate_size 98"},
		{"allowed numbers", with(func(c *Config) { c.NumKeyValueHeads = 2 }), 3, "use 1, 2, 4 or 8"},
		{"classifier", with(func(c *Config) { c.Labels = 1 }), 2, "classifier"},
	} {
		t.Run(test.name, func(t *testing.T) {
			disttest.Run(t, test.n, func(th *torch.Thread, g *dist.Group) error {
				_, err := declareTensorParallel(test.c, g)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					return fmt.Errorf("error %v, want one with %q", err, test.want)
				}
				return nil
			})
		})
	}
}

// TestInvalidBlocks checks blocks to which the formula of tensorparallel.go does not apply.
func TestInvalidBlocks(t *testing.T) {
	for name, change := range map[string]func(c *Config, a *nn.Attention, m *nn.SwiGLU){
		"q_norm depends on all heads": func(c *Config, a *nn.Attention, _ *nn.SwiGLU) {
			norm := c.norm(c.NumAttentionHeads * c.HeadDim)
			a.QNorm = &norm
		},
		"o_proj is split by its inputs and has a bias": func(_ *Config, a *nn.Attention, _ *nn.SwiGLU) { a.OProj.HasBias = true },
		"down_proj [64,96] has the part [32,48]":       func(c *Config, _ *nn.Attention, m *nn.SwiGLU) { m.DownProj.Out = c.IntermediateSize * 2 / 3 },
	} {
		c := wide("llama", 4, false)
		local, err := c.Local(2)
		if err != nil {
			t.Fatal(err)
		}
		declared := func(c *Config) (d declaration) {
			a, m := c.attention(false), c.swiGLU()
			change(c, a, m)
			d.add(newPreNorm(c, a, m), "model.layers.0", "")
			return d
		}
		if err := new(tensorParallel).checkBlocks(declared(&c), declared(&local)); err == nil || !strings.Contains(strings.NewReplacer(".weight", "").Replace(err.Error()), name) {
			t.Errorf("error %v, want one with %q", err, name)
		}
	}
}

// onCutLlama calls f on two ranks with their parts of a llama.
func onCutLlama(t *testing.T, f func(th *torch.Thread, m *Model)) {
	t.Helper()
	disttest.Run(t, 2, func(th *torch.Thread, g *dist.Group) error {
		source, err := New(t.Context(), th, wide("llama", 4, false), 7, torch.Float32)
		if err != nil {
			return err
		}
		defer source.Close()
		m, err := source.TensorParallel(t.Context(), g, torch.Float32)
		if err != nil {
			return err
		}
		defer m.Close()
		f(th, m)
		return nil
	})
}

// TestTensorParallelOperations checks the errors of operations that a tensor-parallel model does not have.
func TestTensorParallelOperations(t *testing.T) {
	onCutLlama(t, func(th *torch.Thread, m *Model) {
		_, shadow := m.Shadow(t.Context(), torch.BFloat16)
		_, logProbs := m.LogProbs(t.Context(), 1, []int32{1, 2, 3})
		for name, err := range map[string]error{
			"Shadow": shadow, "LogProbs": logProbs, "SaveWeights": m.SaveWeights(t.Context(), t.TempDir(), torch.Float32),
			"AddLoRA": m.AddLoRA(t.Context(), LoRA{Rank: 1, Alpha: 1, Targets: []string{AllLinear}}, 1),
			"Forward": torch.Run(t.Context(), th, func(s *torch.Scope) error { m.Forward(s, []int32{1}, []int32{0}, []int{0, 1}); return nil }),
		} {
			if err == nil || !strings.Contains(err.Error(), "can only generate") {
				t.Errorf("%s: error %v, want one that the model can only generate", name, err)
			}
		}
	})
}

// TestLayersWithoutOut checks that a block is an error whose layer gives only the rank's part of its output.
func TestLayersWithoutOut(t *testing.T) {
	onCutLlama(t, func(_ *torch.Thread, m *Model) {
		block := m.Layers[1].(*preNorm)
		block.MLP = &partial{*block.MLP.(*nn.SwiGLU)}
		if _, err := cachedLogits(m); err == nil || !strings.Contains(err.Error(), "Pass.Out") {
			t.Errorf("error %v, want one that names Pass.Out", err)
		}
	})
}

// partial is a feed-forward block that does not call Pass.Out.
type partial struct{ nn.SwiGLU }

func (m *partial) Forward(p *nn.Pass, x torch.Tensor) torch.Tensor {
	y := p.Linear(x, &m.GateProj, &m.UpProj)
	return p.Linear(torch.SwiGLU(y[0], y[1]), &m.DownProj)[0]
}

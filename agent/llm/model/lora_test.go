package model

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/safetensors"
)

var loraIDs = [][]int32{{1, 17, 20, 3, 57, 58, 59, 50, 2, 1, 40}, {33, 5, 14, 60, 61, 7}}

// adapt adds adapters with a random B to a model. The initial B is
// zero, so that new adapters have no effect.
func adapt(t testing.TB, m *Model, o LoRA) {
	t.Helper()
	if err := m.AddLoRA(context.Background(), o, 5); err != nil {
		t.Fatal(err)
	}
	run(t, m.Thread(), func(s *torch.Scope) {
		for i, p := range m.Adapters() {
			if strings.HasSuffix(p.Name, peftB) {
				p.Tensor.Copy_(s.RandN(uint64(i), p.Tensor.Shape()...).MulScalar(.02))
			}
		}
	})
}

func loraLogProbs(t testing.TB, m *Model) []float64 {
	t.Helper()
	list, err := m.LogProbs(context.Background(), 1, loraIDs...)
	if err != nil {
		t.Fatal(err)
	}
	return append(widen(list[0]), widen(list[1])...)
}

func maxAbsDiff(a, b []float64) float64 {
	worst := 0.0
	for i := range a {
		if d := math.Abs(a[i] - b[i]); !(d <= worst) {
			worst = d
		}
	}
	return worst
}

// TestLoRA checks that new adapters do not change the log-probs, that Base
// ignores adapters, and that merging the adapters does not change the log-probs.
func TestLoRA(t *testing.T) {
	ctx := context.Background()
	th := newThread(t)
	for _, name := range tiny {
		for _, targets := range [][]string{{AllLinear}, {"v_proj", "q_proj"}} {
			t.Run(fmt.Sprintf("%s %v", name, targets), func(t *testing.T) {
				m := openTiny(t, th, name, torch.Float32)
				before := loraLogProbs(t, m)
				hash, err := m.Hash(ctx)
				if err != nil {
					t.Fatal(err)
				}
				o := LoRA{Rank: 3, Alpha: 6, Targets: targets}
				if err := m.AddLoRA(ctx, o, 1); err != nil {
					t.Fatal(err)
				}
				if d := maxAbsDiff(loraLogProbs(t, m), before); d != 0 {
					t.Errorf("fresh adapters change log-probs by %g", d)
				}
				m.dropLoRA()
				adapt(t, m, o)
				adapted := loraLogProbs(t, m)
				if d := maxAbsDiff(adapted, before); !(d > 1e-2) {
					t.Fatalf("the adapters change log-probs by only %g", d)
				}
				if d := maxAbsDiff(loraLogProbs(t, m.Base()), before); d != 0 {
					t.Errorf("Base changes log-probs by %g from the model before AddLoRA, want 0", d)
				}
				if now, err := m.Hash(ctx); err != nil || now == hash {
					t.Errorf("the hash is the same with and without adapters: %v", err)
				}
				frozen, err := m.Frozen(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer frozen.Close()
				for i, seq := range loraIDs {
					for _, chunk := range []int{1, 64} {
						cached, err := m.DecodeLogProbs(ctx, 1, seq, chunk)
						if err != nil {
							t.Fatal(err)
						}
						at := i * (len(loraIDs[0]) - 1)
						if d := maxAbsDiff(widen(cached), adapted[at:at+len(seq)-1]); !(d <= 1e-4) {
							t.Errorf("sequence %d decoded in chunks of %d: log-probs differ by %g from the packed pass", i, chunk, d)
						}
					}
				}
				copied := openTiny(t, th, name, torch.Float32)
				run(t, th, func(s *torch.Scope) { copied.CopyWeights(s, m) })
				if d := maxAbsDiff(loraLogProbs(t, copied), adapted); !(d <= 1e-5) {
					t.Errorf("CopyWeights: log-probs differ by %g from the adapted model", d)
				}
				if err := m.Merge(ctx); err != nil {
					t.Fatal(err)
				}
				d := maxAbsDiff(loraLogProbs(t, m), adapted)
				if m.HasLoRA() || !(d <= 1e-5) {
					t.Errorf("Merge changes log-probs by %g", d)
				}
				t.Logf("merged and applied: %.2g", d)
			})
		}
	}
}

// TestFrozenAdapters checks that a frozen copy shares the weights of the model
// and does not change when the adapters of the model change.
func TestFrozenAdapters(t *testing.T) {
	ctx := context.Background()
	m := openTiny(t, newThread(t), "qwen2", torch.Float32)
	adapt(t, m, LoRA{Rank: 2, Alpha: 4, Targets: []string{AllLinear}})
	live := torch.LiveBytes()
	f, err := m.Frozen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := 0
	for _, p := range m.Adapters() {
		size += 4 * p.Tensor.Numel()
	}
	if more := torch.LiveBytes() - live; more != int64(size) {
		t.Errorf("the copy takes %d bytes, want the %d bytes of the adapters", more, size)
	}
	before := loraLogProbs(t, m)
	run(t, m.Thread(), func(s *torch.Scope) { m.Adapters()[1].Tensor.Add_(s.Ones(torch.Float32), .1) })
	after := loraLogProbs(t, m)
	if d := maxAbsDiff(loraLogProbs(t, f), before); d != 0 {
		t.Errorf("log-probs of the frozen copy changed by %g, want 0", d)
	}
	if d := maxAbsDiff(after, before); !(d > 1e-3) {
		t.Fatalf("the adapters changed log-probs by only %g", d)
	}
	run(t, m.Thread(), func(s *torch.Scope) { f.CopyFrom(s, m) })
	if d := maxAbsDiff(loraLogProbs(t, f), after); d != 0 {
		t.Errorf("after CopyFrom, log-probs of the copy differ by %g from the model, want 0", d)
	}
}

// TestLoRAGradients checks that the gradient of every adapter agrees with
// finite differences and that the frozen weights have no gradient.
func TestLoRAGradients(t *testing.T) {
	for _, name := range []string{"llama", "qwen2", "qwen3"} {
		t.Run(name, func(t *testing.T) {
			m := openTiny(t, newThread(t), name, torch.Float64)
			adapt(t, m, LoRA{Rank: 2, Alpha: 4, Dropout: .3, Targets: []string{AllLinear}})
			m.SetDropout(packedKeys(9, loraIDs)) // the same key gives the same mask in every call
			run(t, m.Thread(), func(s *torch.Scope) {
				m.SetTrainable(true)
				ids, positions, offsets := Pack(loraIDs...)
				targets := NextTokens(ids, offsets)
				loss := func(s *torch.Scope) torch.Tensor {
					logp, _ := m.TokenLogProbs(m.Forward(s, ids, positions, offsets), targets, nil, 1, false)
					return logp.Sum()
				}
				s.Do(func(s *torch.Scope) { loss(s).Backward() })
				for _, p := range m.Params() {
					if !p.Tensor.Grad().None() {
						t.Errorf("the frozen %s has a gradient", p.Name)
					}
				}
				const h = 1e-4
				for _, p := range m.Adapters() {
					g := p.Tensor.Grad()
					if g.None() {
						t.Errorf("%s has no gradient", p.Name)
						continue
					}
					grad, data := g.ToFloat64s(), p.Tensor.Detach().ToFloat64s()
					for _, at := range []int{0, len(data) / 2, len(data) - 1} {
						var v [2]float64
						for k, d := range []float64{h, -h} {
							moved := slices.Clone(data)
							moved[at] += d
							s.Do(func(s *torch.Scope) {
								s.NoGrad(func() {
									p.Tensor.Copy_(s.Float64s(moved, p.Tensor.Shape()...))
									v[k] = loss(s).Item()
								})
							})
						}
						s.NoGrad(func() { p.Tensor.Copy_(s.Float64s(data, p.Tensor.Shape()...)) })
						want := (v[0] - v[1]) / (2 * h)
						if math.Abs(grad[at]-want) > 1e-4*math.Max(1, math.Abs(want)) {
							t.Errorf("gradient %d of %s is %v, finite differences give %v", at, p.Name, grad[at], want)
						}
					}
				}
			})
		})
	}
}

// packedKeys returns the arguments of SetDropout for packed sequences with the same key.
func packedKeys(key uint64, seqs [][]int32) (keys []uint64, offsets []int) {
	_, _, offsets = Pack(seqs...)
	return slices.Repeat([]uint64{key}, len(seqs)), offsets
}

func TestLoRADropout(t *testing.T) {
	m := openTiny(t, newThread(t), "llama", torch.Float32)
	adapt(t, m, LoRA{Rank: 4, Alpha: 8, Dropout: .5, Targets: []string{AllLinear}})
	off := loraLogProbs(t, m)
	m.SetDropout(packedKeys(1, loraIDs))
	first, second := loraLogProbs(t, m), loraLogProbs(t, m)
	m.SetDropout(packedKeys(2, loraIDs))
	otherKey := loraLogProbs(t, m)
	base := loraLogProbs(t, m.Base())
	m.SetDropout(nil, nil)
	switch {
	case maxAbsDiff(first, second) != 0:
		t.Error("passes of the same key differ")
	case !(maxAbsDiff(first, otherKey) > 1e-3) || !(maxAbsDiff(first, off) > 1e-3):
		t.Error("dropout has no effect")
	case maxAbsDiff(loraLogProbs(t, m), off) != 0:
		t.Error("SetDropout(nil, nil) did not switch dropout off")
	case maxAbsDiff(base, loraLogProbs(t, m.Base())) != 0:
		t.Error("dropout has an effect without the adapters")
	}
}

// loraFolder saves the adapters of a model whose weights are in a folder.
func loraFolder(t *testing.T, th *torch.Thread, o LoRA) (b *Bundle, dir string) {
	t.Helper()
	ctx := context.Background()
	base, err := filepath.Abs(filepath.Join("testdata", "llama-tied"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = Open(ctx, th, base, Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	o.Base = base
	adapt(t, b.Model, o)
	dir = t.TempDir()
	if err := b.SaveAdapters(ctx, dir); err != nil {
		t.Fatal(err)
	}
	return b, dir
}

// TestSaveAdapters checks that a folder of adapters has PEFT's format and opens as the adapted model, and that the
// merged model is saved as a full model.
func TestSaveAdapters(t *testing.T) {
	ctx := context.Background()
	th := newThread(t)
	o := LoRA{Rank: 3, Alpha: 6, Dropout: .1, RSLoRA: true, Targets: []string{"o_proj", "down_proj"}}
	b, dir := loraFolder(t, th, o)
	want := loraLogProbs(t, b.Model)

	config := readJSON[map[string]any](t, filepath.Join(dir, "adapter_config.json"))
	for key, v := range map[string]any{
		"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 3., "lora_alpha": 6., "lora_dropout": .1, "use_rslora": true, "bias": "none",
	} {
		if config[key] != v {
			t.Errorf("%s is %v, want %v", key, config[key], v)
		}
	}
	if got := fmt.Sprint(config["target_modules"]); got != "[o_proj down_proj]" {
		t.Errorf("target_modules are %s", got)
	}
	f, err := safetensors.Open(filepath.Join(dir, "adapter_model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, ok := f.Info("base_model.model.model.layers.0.mlp.down_proj.lora_A.weight")
	if n := len(f.Names()); !ok || n != 4*b.Model.Config.NumHiddenLayers || !slices.Equal(info.Shape, []int{3, b.Model.Config.IntermediateSize}) {
		t.Errorf("the file has %d tensors, and lora_A of down_proj has shape %v (in the file: %v)", n, info.Shape, ok)
	}

	d, err := Describe(dir, Options{})
	if err != nil || d.Adapters == nil || d.Adapters.Rank != 3 || d.Config.ModelType != "llama" {
		t.Errorf("Describe: got %+v, error %v", d, err)
	}
	reopened, err := Open(ctx, th, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer reopened.Close()
	if d := maxAbsDiff(loraLogProbs(t, reopened.Model), want); d != 0 || !reopened.Model.HasLoRA() || reopened.Path != dir {
		t.Errorf("the opened folder has path %[2]q and log-probs that differ by %[1]g", d, reopened.Path)
	}
	merged := t.TempDir()
	if err := reopened.Save(ctx, merged, torch.Float32); err != nil {
		t.Fatal(err)
	}
	plain, err := Open(ctx, th, merged, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if d := maxAbsDiff(loraLogProbs(t, plain.Model), want); !(d <= 1e-5) || plain.Model.HasLoRA() {
		t.Errorf("log-probs of the saved merged model differ by %g", d)
	}

	// Open merges the inner adapters if the base of a folder of adapters is another folder of adapters.
	second := LoRA{Rank: 1, Alpha: 1, Targets: []string{"q_proj"}, Base: dir}
	if err := reopened.Model.Merge(ctx); err != nil {
		t.Fatal(err)
	}
	adapt(t, reopened.Model, second)
	stacked := loraLogProbs(t, reopened.Model)
	top := t.TempDir()
	if err := reopened.SaveAdapters(ctx, top); err != nil {
		t.Fatal(err)
	}
	both, err := Open(ctx, th, top, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	if d := maxAbsDiff(loraLogProbs(t, both.Model), stacked); !(d <= 1e-5) {
		t.Errorf("adapters on adapters: log-probs differ by %g", d)
	}
}

func TestAdaptersThatDoNotFit(t *testing.T) {
	ctx := context.Background()
	th := newThread(t)
	o := LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj"}}
	_, dir := loraFolder(t, th, o)
	change := func(key string, v any) func(string) {
		return func(dir string) {
			path := filepath.Join(dir, "adapter_config.json")
			config := readJSON[map[string]any](t, path)
			config[key] = v
			text, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	other, err := filepath.Abs(filepath.Join("testdata", "llama-tied"))
	if err != nil {
		t.Fatal(err)
	}
	// This folder has the same model with one number changed.
	b, err := Open(ctx, th, other, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	run(t, th, func(s *torch.Scope) { b.Model.Norm.Weight.Copy_(b.Model.Norm.Weight.MulScalar(1.01)) })
	elsewhere := t.TempDir()
	if err := b.Save(ctx, elsewhere, torch.Float32); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, words string
		change      func(dir string)
	}{
		{"another base", "this is another base model", change("base_model_name_or_path", elsewhere)},
		{"no base", "base_model_name_or_path", change("base_model_name_or_path", "meta-llama/Nowhere")},
		{"the folder as base", "adapter folders", change("base_model_name_or_path", ".")},
		{"DoRA", "use_dora is not supported", change("use_dora", true)},
		{"trained head", "modules_to_save is not supported", change("modules_to_save", []string{"lm_head"})},
		{"another layer", `target module "lm_head"`, change("target_modules", []string{"lm_head"})},
		{"a regular expression", "target module", change("target_modules", ".*proj")},
		{"other layers", "lora_A.weight is missing", change("target_modules", []string{"k_proj"})},
		{"another rank", "has shape [2", change("r", 4)},
		{"rank 0", "must be at least 1", change("r", 0)},
		{"no weights", "adapter_model.safetensors", func(dir string) {
			if err := os.Remove(filepath.Join(dir, "adapter_model.safetensors")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			c.change(copied)
			got, err := Open(ctx, th, copied, Options{})
			if err == nil {
				got.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want %q", err, c.words)
			}
			if _, err := Describe(copied, Options{}); c.name == "the folder as base" && err == nil {
				t.Error("Describe accepts a folder that names itself as base")
			}
		})
	}
	// Weights opened in another dtype still match the fingerprint.
	same, err := Open(ctx, th, dir, Options{DType: torch.BFloat16})
	if err != nil {
		t.Fatal(err)
	}
	same.Close()
}

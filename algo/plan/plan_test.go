package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/generate"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/algo/learner"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/internal/errext"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
)

// TestMemory compares the predicted memory with the largest native heap of updates of a model that no probe has built. A
// prediction may be 10 % too low or 20 % too high.
func TestMemory(t *testing.T) {
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	config := model.Config{
		ModelType: "llama", VocabSize: 3000, HiddenSize: 128, IntermediateSize: 384, NumHiddenLayers: 6, NumAttentionHeads: 8, NumKeyValueHeads: 4,
		HeadDim: 16, MaxPositionEmbeddings: 1024, RMSNormEps: 1e-5, RopeTheta: 10000, TieWordEmbeddings: true, InitializerRange: .02,
	}
	step := Step{Episodes: 6, Context: 700, Sampled: 300, Sessions: 4, MicroTokens: 2 * 700, KVTokens: 4 * 700, Passes: 1, Updates: 1}
	for _, c := range []struct {
		name    string
		options Options
	}{
		{"float32", Options{Compute: torch.Float32}},
		{"bfloat16", Options{Compute: torch.BFloat16}},
		{"checkpointing", Options{Compute: torch.Float32, Checkpointing: true}},
		{"adapters", Options{Compute: torch.Float32, LoRA: &model.LoRA{Rank: 4, Alpha: 8, Targets: []string{model.AllLinear}, Base: "base"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.options
			o.Config, o.Rows = config, 4
			costs, err := Measure(t.Context(), th, o)
			if err != nil {
				t.Fatal(err)
			}
			parts, err := costs.Memory(step)
			if err != nil {
				t.Fatal(err)
			}

			before := torch.HeapBytes()
			peak := watchHeap()
			dt := torch.Float32
			m, err := model.New(t.Context(), th, config, 2, dt)
			if err != nil {
				t.Fatal(err)
			}
			if o.LoRA != nil {
				if err := m.AddLoRA(t.Context(), *o.LoRA, 1); err != nil {
					t.Fatal(err)
				}
			}
			a, err := learner.NewActor(t.Context(), m, o.Compute, optim.AdamWOptions{Beta1: .9, Beta2: .999, Eps: 1e-8})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			a.SetGradientCheckpointing(o.Checkpointing)
			cache, err := generate.New(t.Context(), a.Compute(), generate.Options{KVTokens: step.KVTokens})
			if err != nil {
				t.Fatal(err)
			}
			defer cache.Close()
			var rows []data.Row
			for i := range step.Episodes {
				row := data.Row{UID: fmt.Sprint(i), Tokens: make([]int32, step.Context), Mask: slices.Repeat([]uint8{1}, step.Context)}
				for j := range row.Tokens {
					row.Tokens[j] = int32((i + 3*j) % config.VocabSize)
				}
				rows = append(rows, row)
			}
			for range 2 {
				if _, err := a.UpdateSFT(t.Context(), rows, 1e-3, 1, learner.MicroBatching{Rows: 2}); err != nil {
					t.Fatal(err)
				}
			}
			measured, predicted := peak()-before, Total(parts)
			t.Logf("predicted %.1f MB, measured %.1f MB, ratio %.3f: %+v", float64(predicted)/1e6, float64(measured)/1e6, float64(predicted)/float64(measured), parts)
			if r := float64(predicted) / float64(measured); r < 0.9 || r > 1.2 {
				t.Errorf("predicted %d bytes, measured %d", predicted, measured)
			}
			for _, p := range costs.Time(step) {
				t.Logf("%+v", p)
			}
		})
	}
}

// TestMeasureNeedsMemory checks that a model whose probes exceed the memory of the machine is refused before a probe is built.
func TestMeasureNeedsMemory(t *testing.T) {
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		t.Fatal(err)
	}
	defer th.Close()
	_, err = Measure(t.Context(), th, Options{Compute: torch.BFloat16, Config: model.Config{
		ModelType: "llama", VocabSize: 3000, HiddenSize: 1 << 17, IntermediateSize: 1 << 17, NumHiddenLayers: 80, NumAttentionHeads: 1 << 10, NumKeyValueHeads: 1 << 10,
		HeadDim: 128, MaxPositionEmbeddings: 1024, RMSNormEps: 1e-5, RopeTheta: 10000, InitializerRange: .02,
	}})
	if code, _ := errext.CodeOf(err); code != errext.Check || !strings.Contains(fmt.Sprint(err), "2 layers") {
		t.Errorf("a model with a width of 131072: %v", err)
	}
}

package generate

import (
	"fmt"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/dist"
	"github.com/openmanus/openmanus/torch/dist/disttest"
)

// BenchmarkRanks measures a decoding step of a model of 1024 hidden units and 6 layers on several ranks of this process, with one CPU thread each. It
// reports the bytes of the weights of rank 0.
func BenchmarkRanks(b *testing.B) {
	th, err := torch.NewThread(torch.Device{})
	if err != nil {
		b.Fatal(err)
	}
	defer th.Close()
	m, err := model.New(b.Context(), th, model.Config{
		ModelType: "llama", VocabSize: 32000, HiddenSize: 1024, IntermediateSize: 2816, NumHiddenLayers: 6, NumAttentionHeads: 16, NumKeyValueHeads: 8,
		HeadDim: 64, MaxPositionEmbeddings: 4096, RMSNormEps: 1e-6, RopeTheta: 10000, TieWordEmbeddings: true, InitializerRange: 0.02,
	}, 1, torch.Float32)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	err = m.SaveWeights(b.Context(), dir, torch.Float32)
	m.Close()
	if err != nil {
		b.Fatal(err)
	}
	for _, ranks := range []int{1, 2, 4} {
		for _, rows := range []int{1, 16} {
			b.Run(fmt.Sprintf("ranks=%d/rows=%d", ranks, rows), func(b *testing.B) {
				disttest.Run(b, ranks, func(th *torch.Thread, g *dist.Group) error {
					return serving(th, g, dir, Options{KVTokens: rows * 4096}, func(e *Backend) error {
						bytes := 0
						for _, p := range e.model.Params() {
							bytes += p.Tensor.Numel() * p.Tensor.DType().Size()
						}
						pos, tokens := 0, ids(64, 0)
						step := func() error {
							batch := make([]engine.Work, rows)
							for i := range batch {
								batch[i] = sampling(engine.SeqID(i+1), tokens, pos, i)
							}
							pos, tokens = pos+len(tokens), ids(1, 0)
							_, err := e.Step(b.Context(), batch)
							return err
						}
						if err := step(); err != nil { // the prompts
							return err
						}
						for b.Loop() {
							if err := step(); err != nil {
								return err
							}
						}
						b.ReportMetric(float64(bytes), "weights-B")
						for i := range rows {
							e.Drop(engine.SeqID(i + 1))
						}
						return nil
					})
				})
			})
		}
	}
}

package learner

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/model"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/optim"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// BenchmarkUpdateOfGroups measures an update on 4 prompts × 8 replies of 195 + 64 tokens, and reports its CPU time with
// and without shared prefixes. The model has 4 layers of SmolLM2-135M's 30, and the same share of its vocabulary.
func BenchmarkUpdateOfGroups(b *testing.B) {
	const groups, replies, prompt, reply, vocab = 4, 8, 195, 64, 49152 * 4 / 30
	rows := make([]data.Row, groups*replies)
	for i := range rows {
		r := &rows[i]
		r.UID = fmt.Sprint(i)
		for j := range prompt + reply {
			seed := i / replies
			if j >= prompt {
				seed = 1000 + i
			}
			r.Tokens = append(r.Tokens, int32((seed*131+j*j*7)%vocab))
		}
		r.Mask = slices.Concat(make([]uint8, prompt), slices.Repeat([]uint8{1}, reply))
		r.OldLogProbs = slices.Repeat([]float32{-10}, prompt+reply)
		r.RefLogProbs, r.RolloutLogProbs = r.OldLogProbs, r.OldLogProbs
		r.Advantages = slices.Repeat([]float32{float32(1 - i%3)}, prompt+reply)
	}
	config := tinyConfig()
	config.VocabSize, config.HiddenSize, config.IntermediateSize, config.NumHiddenLayers = vocab, 576, 1536, 4
	config.NumAttentionHeads, config.NumKeyValueHeads, config.HeadDim, config.InitializerRange = 9, 3, 64, .02
	for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
		m, err := model.New(context.Background(), torchtest.Thread(b), config, 1, torch.Float32)
		if err != nil {
			b.Fatal(err)
		}
		a, err := NewActor(context.Background(), m, dt, optim.DefaultAdamW())
		if err != nil {
			b.Fatal(err)
		}
		for _, micro := range []MicroBatching{{Rows: 4}, {Rows: 4, SharePrefix: true}, {Rows: 8}, {Rows: 8, SharePrefix: true}} {
			b.Run(fmt.Sprintf("%v/rows=%d/share=%v", dt, micro.Rows, micro.SharePrefix), func(b *testing.B) {
				began := cpuMillis(b)
				for b.Loop() {
					if _, err := a.UpdateActor(context.Background(), slices.Clone(rows), 1e-6, policyOptions(micro)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric((cpuMillis(b)-began)/float64(b.N), "cpu-ms/op")
			})
		}
		a.Close()
	}
}

// cpuMillis returns the CPU time of the process.
func cpuMillis(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

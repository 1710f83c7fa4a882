package generate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/torch"
)

// BenchmarkInt8 compares decoding steps of SmolLM2-135M with int8 weights and with bfloat16 weights at a context of about 128 tokens. The
// steps alternate, so that other work on the machine slows both; the times are medians.
func BenchmarkInt8(b *testing.B) {
	defer torch.SetNumThreads(torch.NumThreads())
	torch.SetNumThreads(2)
	for _, dt := range []torch.DType{torch.BFloat16, torch.Float32} {
		for _, rows := range []int{1, 2, 4, 8, 16, 32, 64} {
			b.Run(fmt.Sprintf("%v/rows=%d", dt, rows), func(b *testing.B) {
				var backends [2]*Backend
				for i, o := range []Options{{KVTokens: rows * 512}, {KVTokens: rows * 512, Int8: true}} {
					t := torch.BFloat16
					if o.Int8 {
						t = dt // of the activations
					}
					backends[i] = newBackend(b, openSmolLM2(b, torch.Device{}, t).Model, o)
					var prompts []engine.Work
					for r := range rows {
						w := sampling(engine.SeqID(r+1), ids(100, r), 0, r)
						w.Sample = false
						prompts = append(prompts, w)
					}
					step(b, backends[i], prompts...)
				}
				var took [2][]time.Duration
				position := 100
				for b.Loop() {
					for i, backend := range backends {
						var batch []engine.Work
						for r := range rows {
							batch = append(batch, sampling(engine.SeqID(r+1), []int32{int32(r + 5)}, position, r))
						}
						start := time.Now()
						step(b, backend, batch...)
						took[i] = append(took[i], time.Since(start))
					}
					if position++; position == 160 {
						position = 96 // a multiple of the block size, at which a sequence can be cut
					}
				}
				for i, name := range []string{"bf16-ms", "int8-ms"} {
					slices.Sort(took[i])
					b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds())/1000, name)
				}
				b.ReportMetric(float64(took[0][len(took[0])/2])/float64(took[1][len(took[1])/2]), "times")
			})
		}
	}
}

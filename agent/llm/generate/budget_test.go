package generate

import (
	"os"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/torch"
)

// TestLaunchBudget checks on the protected device what a step without graphs costs a GPU, whatever the batch: 12 operations a layer and few
// besides, one copy to the device and one to the host, which is the only wait. The tokens that top-k and top-p keep are a second
// copy to the host.
func TestLaunchBudget(t *testing.T) {
	if os.Getenv("OPENMANUS_KERNELS") == "off" {
		t.Skip("the budget holds with the kernels")
	}
	for _, tm := range []struct {
		name string
		dt   torch.DType
	}{{"llama-tied", torch.Float32}, {"llama-tied", torch.BFloat16}, {"qwen3", torch.Float32}, {"qwen3", torch.BFloat16}} {
		m := openNamed(t, torch.Device{Protected: true}, tm.name, tm.dt)
		layers := len(m.Layers)
		known := func(n, salt int) []int32 { // ids of the model's vocabulary
			list := ids(n, salt)
			for i := range list {
				list[i] %= int32(m.Config.VocabSize)
			}
			return list
		}
		for _, batch := range []int{1, 5, 40} {
			for _, tt := range []struct {
				name                           string
				cached, tokens                 int
				change                         func(*engine.Work)
				operations, uploads, downloads int
			}{
				{"decode", 40, 1, nil, 12*layers + 4, 1, 1},  // the others: embedding, norm, logits, draw
				{"prefill", 0, 40, nil, 12*layers + 5, 1, 1}, // and the selection of the last tokens
				{"prefill after a context", 40, 30, nil, 12*layers + 5, 1, 1},
				{"prefill without a draw", 40, 30, func(w *engine.Work) { w.Sample = false }, 12*layers + 2, 1, 0},
				{"mixed", 40, 1, func(w *engine.Work) { // the two kinds of attention are an operation each
					if w.Seq%2 == 1 {
						w.Tokens = known(20, 2)
					}
				}, 13*layers + 5, 1, 1},
				{"top-p", 40, 1, func(w *engine.Work) { w.TopP = 0.9 }, 12*layers + 6, 1, 2},
			} {
				b := newBackend(t, m, Options{KVTokens: 8192, EnforceEager: true})
				works := func(tokens, pos int) (out []engine.Work) {
					for i := range batch {
						out = append(out, sampling(engine.SeqID(i+1), known(tokens, 1), pos, i))
					}
					return out
				}
				if tt.cached > 0 {
					step(t, b, works(tt.cached, 0)...)
				}
				work := works(tt.tokens, tt.cached)
				for i := range work {
					if tt.change != nil {
						tt.change(&work[i])
					}
				}
				before := torch.ProtectedCounts()
				step(t, b, work...)
				now := torch.ProtectedCounts()
				operations, up, down := now.Operations-before.Operations, now.Uploads-before.Uploads, now.Downloads-before.Downloads
				// The first step of a thread makes the counters that the kernels share.
				if operations > tt.operations+1 || tt.cached > 0 && operations > tt.operations || up > tt.uploads || down > tt.downloads {
					t.Errorf("%s in %v, batch %d, %s: %d operations, %d copies to the device and %d to the host; want at most %d, %d and %d",
						tm.name, tm.dt, batch, tt.name, operations, up, down, tt.operations, tt.uploads, tt.downloads)
				}
			}
		}
	}
}

package generate

import (
	"os"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/torch"
)

// TestLaunchBudget checks on the protected device what a decoding step costs a GPU: at most 12 operations a layer and 5 besides,
// whatever the batch, and one copy to the host, which is the only wait.
func TestLaunchBudget(t *testing.T) {
	if os.Getenv("OPENMANUS_KERNELS") == "off" {
		t.Skip("the budget holds with the kernels")
	}
	for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
		m := openModelOn(t, torch.Device{Protected: true}, dt)
		for _, batch := range []int{1, 5, 40} {
			b := newBackend(t, m, Options{KVTokens: 4096})
			work := func(pos int, tokens []int32) (out []engine.Work) {
				for i := range batch {
					out = append(out, sampling(engine.SeqID(i+1), tokens, pos, i))
				}
				return out
			}
			step(t, b, work(0, ids(40, 1))...)
			before := torch.ProtectedCounts()
			step(t, b, work(40, ids(1, 2))...)
			now := torch.ProtectedCounts()
			operations, downloads := now.Operations-before.Operations, now.Downloads-before.Downloads
			if most := 12*len(m.Layers) + 5; operations > most || downloads > 1 {
				t.Errorf("%v, batch %d: %d operations and %d copies to the host; want at most %d and 1", dt, batch, operations, downloads, most)
			}
		}
	}
}

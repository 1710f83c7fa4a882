package generate

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/torch"
	"github.com/openmanus/openmanus/torch/torchtest"
)

// graphDevice returns the device of the tests if it has graphs, or else the protected device.
func graphDevice(t *testing.T) torch.Device {
	t.Helper()
	if os.Getenv("OPENMANUS_KERNELS") == "off" {
		t.Skip("graphs need the kernels")
	}
	d := torchtest.Device(t)
	if d.IsCPU() {
		d = torch.Device{Protected: true}
	}
	return d
}

// TestGraphs plays the same batches with and without graphs. The log-probs differ as much as matrix products of different numbers of
// rows, because a graph pads the batch. A step by a graph is one operation and one copy in each direction.
func TestGraphs(t *testing.T) {
	d := graphDevice(t)
	for _, dt := range []torch.DType{torch.Float32, torch.BFloat16} {
		m := openModelOn(t, d, dt)
		graphs := newBackend(t, m, Options{KVTokens: 40 * 32 * 24, BlockSize: 32})
		eager := newBackend(t, m, Options{KVTokens: 40 * 32 * 24, BlockSize: 32, EnforceEager: true})
		limit := tolerance
		if !d.Protected && dt == torch.BFloat16 {
			limit = 0.05
		}
		next, length := map[int]int32{}, map[int]int{}
		play := func(name string, sequences []int, change func(*engine.Work)) {
			t.Helper()
			var work []engine.Work
			for _, i := range sequences {
				tokens := []int32{next[i]}
				if length[i] == 0 {
					tokens = ids(10+37*(i%7), i)
				}
				w := sampling(engine.SeqID(i+1), tokens, length[i], i)
				if change != nil {
					change(&w)
				}
				work = append(work, w)
			}
			want, got := step(t, eager, slices.Clone(work)...), step(t, graphs, work...)
			other := 0
			for j, i := range sequences {
				next[i], length[i] = want[j].Token, length[i]+len(work[j].Tokens)
				same := got[j].Token == want[j].Token && len(got[j].Kept) == len(want[j].Kept) && len(got[j].Top) == len(want[j].Top)
				if !same || !(math.Abs(float64(got[j].LogProb-want[j].LogProb)) <= limit) {
					other++
				}
			}
			// A draw between two close scores may differ on a GPU, whose rounding the keys of this test do not know.
			if other > 0 && (d.Protected || other > 1+len(sequences)/10) {
				t.Errorf("%v, %s: %d of %d draws differ from those without graphs", dt, name, other, len(sequences))
			}
		}
		all := func(n int) (list []int) {
			for i := range n {
				list = append(list, i)
			}
			return list
		}
		play("prefill", all(40), nil)
		for round := range 3 {
			for _, n := range []int{1, 3, 17, 40} {
				play("decode", all(n), nil)
			}
			play("other sequences", []int{39, 3, 20}, nil)
			play("top-p", []int{1, 2, 3}, func(w *engine.Work) { w.TopP = 0.8 })
			play("some top-k, greedy", []int{1, 2, 3, 7, 8}, func(w *engine.Work) {
				w.Greedy = w.Seq%2 == 0
				w.TopK = 3 * int(w.Seq%3)
				w.Temperature = 0.7
			})
			play("candidates", all(6), func(w *engine.Work) { w.Top = 3 })
			if round == 1 {
				play("a new sequence", []int{50, 2, 3}, nil)
			}
		}
		if !d.Protected {
			continue
		}
		before := torch.ProtectedCounts()
		var work []engine.Work
		for i := range 17 {
			work = append(work, sampling(engine.SeqID(i+1), []int32{next[i]}, length[i], i))
		}
		step(t, graphs, work...)
		now := torch.ProtectedCounts()
		if n := (torch.Counts{Operations: now.Operations - before.Operations, Uploads: now.Uploads - before.Uploads, Downloads: now.Downloads - before.Downloads}); n != (torch.Counts{Operations: 1, Uploads: 1, Downloads: 1}) {
			t.Errorf("%v: a step by a graph was %+v, want one each", dt, n)
		}
	}
}

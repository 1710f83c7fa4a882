package generate

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/torch"
)

// TestMostProbable checks the candidates of a step against the sampler: the same log-prob
// for the drawn token, the same subset of the vocabulary, a sum of 1 over all of them.
func TestMostProbable(t *testing.T) {
	m := openModel(t, torch.Float32)
	b := newBackend(t, m, Options{KVTokens: 512, BlockSize: 16})
	for i, tt := range []struct {
		name string
		set  func(*engine.Work)
	}{
		{"plain", func(*engine.Work) {}},
		{"hot", func(w *engine.Work) { w.Temperature = 1.7 }},
		{"greedy", func(w *engine.Work) { w.Greedy = true }},
		{"top-k", func(w *engine.Work) { w.TopK = 9 }},
		{"top-p", func(w *engine.Work) { w.TopP = 0.9 }},
		{"both", func(w *engine.Work) { w.TopK, w.TopP, w.Temperature = 20, 0.8, 1.3 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := sampling(engine.SeqID(3*i+1), ids(20, i), 0, i)
			tt.set(&w)
			w.Top = m.Config.VocabSize
			all := step(t, b, w)[0]
			w.Seq, w.Top = w.Seq+1, 4
			few := step(t, b, w)[0]
			w.Seq, w.Top = w.Seq+1, 0
			none := step(t, b, w)[0]
			for n := range engine.SeqID(3) {
				b.Drop(w.Seq - n)
			}

			if none.Token != all.Token || none.Token != few.Token || none.Top != nil {
				t.Errorf("the candidates change the draw: %v, %v, %v", all.Token, few.Token, none)
			}
			if !slices.Equal(few.Top, all.Top[:4]) {
				t.Errorf("the best 4 are %v, want the first of %v", few.Top, all.Top[:10])
			}
			if !slices.IsSortedFunc(all.Top, func(a, b engine.Candidate) int { return cmp.Compare(b.LogProb, a.LogProb) }) {
				t.Errorf("%v is not sorted by log-prob", all.Top)
			}
			sum, listed := 0.0, []int32(nil)
			for _, c := range all.Top {
				sum += math.Exp(float64(c.LogProb))
				listed = append(listed, c.ID)
				if c.ID == all.Token && math.Abs(float64(c.LogProb-all.LogProb)) > 1e-5 {
					t.Errorf("the log-prob of the drawn token is %v, want %v", c.LogProb, all.LogProb)
				}
			}
			if math.Abs(sum-1) > 1e-5 || !slices.Contains(listed, all.Token) {
				t.Errorf("the probabilities sum to %v, and the list %v must have the token %d", sum, listed, all.Token)
			}
			if slices.Sort(listed); all.Kept != nil && !slices.Equal(listed, all.Kept) {
				t.Errorf("the candidates are %v, want the kept tokens %v", listed, all.Kept)
			}
			if w.Greedy && all.Top[0].ID != all.Token {
				t.Errorf("the first candidate is %d, want the greedy token %d", all.Top[0].ID, all.Token)
			}
		})
	}
}

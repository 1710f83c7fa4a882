package learner

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/torch"
)

// TestPasses checks that every pass contains each episode once, with its contexts in order. The
// order of a shuffled pass depends on the seed and the pass alone.
func TestPasses(t *testing.T) {
	var rows []data.Row
	for i := range 7 {
		contexts := 1 + i%3
		for c := range contexts {
			rows = append(rows, data.Row{UID: fmt.Sprint("task", i/2), Sample: i, Context: c, Contexts: contexts})
		}
	}
	// samples returns the episodes of every mini-batch of every pass.
	samples := func(o Passes, size int, seed uint64) [][][]int {
		p, err := newPasses(rows, size, o, seed)
		must(t, err)
		var out [][][]int
		for n := range p.Count() {
			minis, _ := p.next(n)
			if len(minis) != p.miniBatches() {
				t.Errorf("%+v: pass %d has %d mini-batches, want %d", o, n, len(minis), p.miniBatches())
			}
			var pass [][]int
			for _, mini := range minis {
				spans, err := data.EpisodeSpans(mini)
				must(t, err)
				var list []int
				for _, s := range spans {
					list = append(list, mini[s[0]].Sample)
				}
				pass = append(pass, list)
			}
			out = append(out, pass)
		}
		return out
	}
	same := func(a, b [][]int) bool { return slices.EqualFunc(a, b, slices.Equal) }

	plain := samples(Passes{Epochs: 2}, 3, 5)
	for _, pass := range plain {
		if !same(pass, [][]int{{0, 1}, {2, 3}, {4, 5, 6}}) {
			t.Errorf("without shuffle the pass is %v, want the episodes in order", pass)
		}
	}
	shuffled := samples(Passes{Epochs: 3, Shuffle: true}, 3, 5)
	for n, pass := range shuffled {
		all := slices.Sorted(slices.Values(slices.Concat(pass...)))
		if !slices.Equal(all, []int{0, 1, 2, 3, 4, 5, 6}) {
			t.Errorf("shuffled pass %d has the episodes %v, want each once", n, all)
		}
		if n > 0 && same(pass, shuffled[n-1]) {
			t.Errorf("passes %d and %d have the same order: %v", n-1, n, pass)
		}
	}
	if repeated := samples(Passes{Epochs: 3, Shuffle: true}, 3, 5); !slices.EqualFunc(repeated, shuffled, same) {
		t.Errorf("the same seed gave the passes %v and %v", shuffled, repeated)
	}
	if other := samples(Passes{Epochs: 3, Shuffle: true}, 3, 6); slices.EqualFunc(other, shuffled, same) {
		t.Error("another seed gave the same order")
	}
	if single := samples(Passes{Shuffle: true}, 0, 5); !same(single[0], [][]int{{0, 1, 2, 3, 4, 5, 6}}) {
		t.Errorf("the only mini-batch is %v, want all episodes in order", single[0])
	}
}

// TestTwoPassesAreTwoByHand checks that an update with two passes equals two passes computed by
// hand, bit for bit, with one mini-batch per pass and with several. All ratios are relative to the
// log-probs from before the first pass.
func TestTwoPassesAreTwoByHand(t *testing.T) {
	const lr = 1e-2
	for _, size := range []int{4, 8} {
		o := policyOptions(MicroBatching{Rows: 2})
		o.MiniBatch, o.Passes.Epochs = size, 2
		a, b := testActor(t, torch.Float32), testActor(t, torch.Float32)
		rows, rowsByHand := trainRows(8), trainRows(8)
		for _, list := range [][]data.Row{rows, rowsByHand} {
			must(t, LogProbs(t.Context(), a.Compute(), list, MicroBatching{Rows: 1}, o.Temperature, OldLogProbs))
		}
		st, err := a.UpdateActor(t.Context(), rows, lr, o)
		must(t, err)
		var sums PolicyStats
		for range 2 {
			for mini := range slices.Chunk(rowsByHand, size) {
				_, err := b.updateMiniBatch(t.Context(), mini, lr, false, o, &sums)
				must(t, err)
				o.Seed++
			}
		}
		if st.Steps != 2*8/size || sums.Steps != st.Steps {
			t.Errorf("mini-batches of %d: %d optimiser steps, want %d as by hand", size, st.Steps, sums.Steps)
		}
		if d, name := relative(t, weights(t, a), weights(t, b)); d != 0 {
			t.Errorf("mini-batches of %d: %s differs by %g from the passes by hand", size, name, d)
		}
		if want := sums.PPOKL / float64(2*LossTokens(rows)); st.PPOKL != want || math.Abs(want) < 1e-4 {
			t.Errorf("mini-batches of %d: the KL to the old policy is %g, want %g as by hand", size, st.PPOKL, want)
		}
	}
}

// TestShuffledPassesReport checks that the first pass writes its diagnostics to the right rows
// although it is shuffled, and that later passes do not overwrite them.
func TestShuffledPassesReport(t *testing.T) {
	o := policyOptions(MicroBatching{Rows: 2})
	o.EntropyCoef, o.KLCoef, o.Entropy = 0, 0, true
	o.MiniBatch, o.Seed = 2, 3
	update := func(passes Passes) ([]data.Row, PolicyStats) {
		a := testActor(t, torch.Float32)
		rows := trainRows(8)
		must(t, LogProbs(t.Context(), a.Compute(), rows, MicroBatching{Rows: 1}, o.Temperature, OldLogProbs))
		o := o
		o.Passes = passes
		st, err := a.UpdateActor(t.Context(), rows, 1e-2, o)
		must(t, err)
		return rows, st
	}
	one, first := update(Passes{Epochs: 1, Shuffle: true})
	three, all := update(Passes{Epochs: 3, Shuffle: true})
	for i, r := range trainRows(8) {
		if one[i].UID != r.UID || !slices.Equal(one[i].Tokens, r.Tokens) || len(one[i].Entropies) != len(r.Tokens) {
			t.Errorf("row %d has different tokens or no entropies", i)
		}
		if !slices.Equal(one[i].Entropies, three[i].Entropies) {
			t.Errorf("row %d: the entropies come from a later pass", i)
		}
	}
	if first.Gap != all.Gap || first.Gap.Mean == 0 || all.Steps != 12 {
		t.Errorf("the gap is %+v after one pass and %+v after three passes of %d steps, want equal gaps and 12 steps", first.Gap, all.Gap, all.Steps)
	}
}

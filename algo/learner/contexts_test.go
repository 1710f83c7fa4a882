package learner

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/algo/loss"
	"github.com/openmanus/openmanus/data"
)

// TestMiniBatchesHoldWholeEpisodes checks that the size of a mini-batch counts episodes, not
// contexts.
func TestMiniBatchesHoldWholeEpisodes(t *testing.T) {
	rows := specRows("a", "a", "a", "b")
	for i := range rows {
		rows[i].Tokens = make([]int32, len(rows[i].Mask))
	}
	var cut []data.Row
	cut = append(cut, splitContexts(rows[0], 1, 3, 1)...)
	cut = append(cut, rows[1])
	cut = append(cut, splitContexts(rows[2], 2, 3)...)
	cut = append(cut, splitContexts(rows[3], 3, 2)...)
	for size, want := range map[int][]int{0: {8}, 1: {3, 1, 2, 2}, 2: {4, 4}, 3: {4, 4}, 9: {8}} {
		p, err := newPasses(cut, size, Passes{}, 1)
		must(t, err)
		minis, _ := p.next(0)
		var got []int
		for _, m := range minis {
			got = append(got, len(m))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("mini-batches of %d episodes (-want +got):\n%s", size, d)
		}
	}
	if _, err := newPasses(cut[1:], 2, Passes{}, 1); err == nil {
		t.Error("rows without the first context of their episode were accepted")
	}
}

// TestContextsShareTheEpisodesLoss checks that a mean over rows is a mean over episodes, so the
// tokens of an episode have the same weight for any number of contexts.
func TestContextsShareTheEpisodesLoss(t *testing.T) {
	rows := specRows("a", "a", "b", "b")
	for i := range rows {
		rows[i].Tokens = make([]int32, len(rows[i].Mask))
	}
	var cut []data.Row
	cut = append(cut, splitContexts(rows[0], 1, 3, 1)...)
	cut = append(cut, rows[1])
	cut = append(cut, splitContexts(rows[2], 2, 3)...)
	cut = append(cut, rows[3])
	for _, name := range loss.Aggregations.Names() {
		aggregate, err := loss.Aggregations.Lookup(name)
		must(t, err)
		got, err := tokenWeights(cut, aggregate, 10)
		must(t, err)
		// The first token of a row is never in the loss, so a cut before a sampled token removes that token from the loss.
		var lens []int
		for _, span := range [][2]int{{0, 3}, {3, 4}, {4, 6}, {6, 7}} {
			lens = append(lens, LossTokens(cut[span[0]:span[1]]))
		}
		weight := aggregate(lens, 10)
		var want []float32
		for _, n := range lens {
			want = append(want, slices.Repeat([]float32{float32(weight(n))}, n)...)
		}
		if !slices.Equal(got, want) || slices.Min(got) <= 0 {
			t.Errorf("%s: the tokens have the weights %v, want %v, all positive", name, got, want)
		}
	}
}

// The inputs of spec 12: four rows of five tokens.
func specRows(uids ...string) []data.Row {
	rewards := [][]float32{{0, 0, 0, 0, 1}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, .5}, {0, 0, -1, 0, 0}}
	masks := [][]uint8{{1, 1, 0, 1, 1}, {1, 1, 1, 1, 0}, {1, 0, 0, 1, 1}, {1, 1, 1, 0, 0}}
	rows := make([]data.Row, len(rewards))
	for i := range rows {
		rows[i] = data.Row{UID: uids[i], Tokens: make([]int32, 5), Mask: masks[i], Rewards: rewards[i]}
	}
	return rows
}

// splitContexts cuts a row into contexts of the given lengths.
func splitContexts(r data.Row, lengths ...int) []data.Row {
	var rows []data.Row
	at := 0
	for i, n := range lengths {
		c := r
		c.Context, c.Contexts = i, len(lengths)
		c.Tokens, c.Mask, c.Rewards = r.Tokens[at:at+n], r.Mask[at:at+n], r.Rewards[at:at+n]
		for _, values := range []*[]float32{&c.Values, &c.OldLogProbs, &c.SumPiSquared} {
			if *values != nil {
				*values = (*values)[at : at+n]
			}
		}
		c.Turns = nil
		for _, turn := range r.Turns {
			if turn.Start >= at && turn.End <= at+n {
				turn.Start, turn.End = turn.Start-at, turn.End-at
				c.Turns = append(c.Turns, turn)
			}
		}
		rows = append(rows, c)
		at += n
	}
	return rows
}

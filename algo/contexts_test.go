package algo

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

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

// TestContextsShareTheEpisodesAdvantage checks that an episode counts once for any number of
// contexts. If every context counted, long episodes would outweigh short ones.
func TestContextsShareTheEpisodesAdvantage(t *testing.T) {
	rows := specRows("a", "a", "a", "b")
	for i := range rows {
		rows[i].Tokens = make([]int32, len(rows[i].Mask))
	}
	var cut []data.Row
	cut = append(cut, splitContexts(rows[0], 1, 3, 1)...)
	cut = append(cut, rows[1])
	cut = append(cut, splitContexts(rows[2], 2, 3)...)
	cut = append(cut, splitContexts(rows[3], 3, 2)...)
	must(t, advantage.Compute("grpo", rows, advantage.Options{Params: registry.Values{"norm_by_std": true}}))
	must(t, advantage.Compute("grpo", cut, advantage.Options{Params: registry.Values{"norm_by_std": true}}))

	uncut, err := BatchMetrics(rows)
	must(t, err)
	of, err := BatchMetrics(cut)
	must(t, err)
	if d := cmp.Diff(uncut, of); d != "" {
		t.Errorf("metrics (-one context +several contexts):\n%s", d)
	}

	if n := episodesIn(cut); n != 4 {
		t.Errorf("episodesIn = %d, want 4", n)
	}
	kept, singles := DropSingles(cut)
	if len(kept) != 6 || singles != 1 {
		t.Errorf("DropSingles kept %d rows and found %d single groups, want 6 and 1", len(kept), singles)
	}
	kept, stats, err := DropZeroSpread(cut, GroupMetrics["seq_final_reward"])
	must(t, err)
	if len(kept) != 6 || stats.Single != 1 {
		t.Errorf("DropZeroSpread kept %d rows with stats %+v, want 6 rows and 1 single group", len(kept), stats)
	}
	// PF-PPO must resample whole episodes.
	drawn, err := advantage.Resample(cut, "pow", registry.Values{"pf_ppo_weight_pow": 1.0}, 5, 1)
	must(t, err)
	spans, err := data.EpisodeSpans(drawn)
	must(t, err)
	if len(spans) != 4 {
		t.Errorf("Resample drew %d episodes, want 4", len(spans))
	}
}

// TestContextsUnderEveryEstimator checks that every estimator receives whole episodes with all the
// fields it needs.
func TestContextsUnderEveryEstimator(t *testing.T) {
	rows := specRows("a", "a", "a", "b")
	values := [][]float32{{.1, .2, .3, .4, .5}, {0, .1, 0, .1, 0}, {.2, .2, .2, .2, .2}, {-.1, -.2, -.3, 0, 0}}
	old := [][]float32{{-1, -2, -.5, -.1, -3}, {-.7, -.6, -.5, -.4, -.3}, {-2, -2, -2, -2, -2}, {-.2, -.4, -.6, -.8, -1}}
	for i := range rows {
		r := &rows[i]
		baseline := .1 * float64(i)
		r.Values, r.OldLogProbs, r.Baseline, r.SumPiSquared = values[i], old[i], &baseline, []float32{.1, .2, .3, .4, .5}
		r.Parts = []data.RewardPart{{Weight: 1, Value: float64(i)}, {Weight: .5, Value: float64(-i * i)}}
		r.FirstObservation = "start"
		for at, m := range r.Mask { // every sampled token is a turn
			if m == 1 {
				r.Turns = append(r.Turns, data.Turn{Start: at, End: at + 1, Parsed: at != 3, Observation: []string{"start", "on", "on", "wall", "end"}[at]})
			}
		}
	}
	var cut []data.Row
	cut = append(cut, splitContexts(rows[0], 1, 3, 1)...)
	cut = append(cut, rows[1])
	cut = append(cut, splitContexts(rows[2], 2, 3)...)
	cut = append(cut, splitContexts(rows[3], 3, 2)...)
	o := advantage.Options{Params: registry.Values{
		"norm_by_std": true, "gamma": .9, "lam": .8, "gigpo_step_weight": 1.0, "gigpo_norm": advantage.MeanStdNorm,
	}, InvalidActionPenalty: .25}
	names := advantage.Estimators.Names()
	if len(names) < 13 { // aliases are not included in the names
		t.Fatalf("the estimators are only %q, want at least 13", names)
	}
	for _, name := range names {
		must(t, advantage.Compute(name, rows, o))
		must(t, advantage.Compute(name, cut, o))
		for what, of := range map[string]func(*data.Row) []float32{
			"advantages": func(r *data.Row) []float32 { return r.Advantages }, "returns": func(r *data.Row) []float32 { return r.Returns },
		} {
			var got, want []float32
			for i := range rows {
				want = append(want, of(&rows[i])...)
			}
			for i := range cut {
				if len(of(&cut[i])) != len(cut[i].Tokens) {
					t.Fatalf("%s: %d %s for %d tokens", name, len(of(&cut[i])), what, len(cut[i].Tokens))
				}
				got = append(got, of(&cut[i])...)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, %s (-one context +several contexts):\n%s", name, what, d)
			}
		}
		if !slices.ContainsFunc(rows[0].Advantages, func(a float32) bool { return a != 0 }) {
			t.Errorf("%s: all advantages are 0, so the test checks nothing", name)
		}
	}
}

// TestGreedyScoresOfContexts checks that the baseline of remax is the reward of the greedy episode,
// summed over its contexts.
func TestGreedyScoresOfContexts(t *testing.T) {
	rows := specRows("a", "b", "c", "d")[:2]
	rows[0].Rewards = []float32{.5, 0, .25, 0, 1}
	rows[1].Rewards = []float32{0, 0, 0, 0, -2}
	for i := range rows {
		rows[i].Tokens = make([]int32, len(rows[i].Mask))
	}
	cut := append(splitContexts(rows[0], 2, 2, 1), splitContexts(rows[1], 4, 1)...)
	want := map[string]float64{"a": 1.75, "b": -2}
	for name, list := range map[string][]data.Row{"whole": rows, "parted": cut} {
		if d := cmp.Diff(want, greedyScores(list)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

package advantage

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// The inputs of spec 12: four rows of five tokens.
var (
	specRewards = [][]float32{{0, 0, 0, 0, 1}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, .5}, {0, 0, -1, 0, 0}}
	specMask    = [][]uint8{{1, 1, 0, 1, 1}, {1, 1, 1, 1, 0}, {1, 0, 0, 1, 1}, {1, 1, 1, 0, 0}}
	specValues  = [][]float32{{.1, .2, .3, .4, .5}, {0, .1, 0, .1, 0}, {.2, .2, .2, .2, .2}, {-.1, -.2, -.3, 0, 0}}
	specOld     = [][]float32{{-1, -2, -.5, -.1, -3}, {-.7, -.6, -.5, -.4, -.3}, {-2, -2, -2, -2, -2}, {-.2, -.4, -.6, -.8, -1}}
)

func specRows(uids ...string) []data.Row {
	rows := make([]data.Row, len(uids))
	for i := range rows {
		rows[i] = data.Row{
			UID: uids[i], Tokens: make([]int32, 5), Mask: specMask[i], Rewards: specRewards[i], Values: specValues[i],
			OldLogProbs: specOld[i], SumPiSquared: []float32{.4, .4, .4, .4, .4}, Baseline: &[]float64{.2, .2, .1, .1}[i],
			Parts: []data.RewardPart{{Weight: 1, Value: float64(i)}},
		}
	}
	return rows
}

// masked checks that the sampled tokens have the values of want and other tokens have 0.
func masked(t *testing.T, what string, rows []data.Row, got func(*data.Row) []float32, want [][]float64) {
	t.Helper()
	for i := range rows {
		v := got(&rows[i])
		if len(v) != len(rows[i].Mask) {
			t.Fatalf("the %s of row %d has %d entries, want one for each token", what, i, len(v))
		}
		for j, m := range rows[i].Mask {
			w := 0.0
			if m == 1 {
				w = want[i][j]
			}
			if d := math.Abs(float64(v[j]) - w); !(d <= 1e-5) {
				t.Errorf("%s[%d][%d] = %g, want %g", what, i, j, v[j], w)
			}
		}
	}
}

func advantages(r *data.Row) []float32 { return r.Advantages }
func returnsOf(r *data.Row) []float32  { return r.Returns }

func flat(scalars ...float64) [][]float64 {
	out := make([][]float64, len(scalars))
	for i, v := range scalars {
		out[i] = []float64{v, v, v, v, v}
	}
	return out
}

// TestGroupEstimators compares the estimators that give a row one advantage with the numbers of
// spec 12.1, "row scalars".
func TestGroupEstimators(t *testing.T) {
	pairs, alone := []string{"a", "a", "b", "b"}, []string{"a", "b", "c", "d"}
	for _, c := range []struct {
		name, estimator string
		uids            []string
		noStd           bool
		want            []float64
	}{
		{"grpo", "grpo", pairs, false, []float64{.707106, -.707106, .707106, -.707106}},
		{"grpo, groups of one row", "grpo", alone, false, []float64{.999999, 0, .5, -.999999}},
		{"grpo without std", "grpo", pairs, true, []float64{.5, -.5, .75, -.75}},
		{"grpo_vectorized", "grpo_vectorized", pairs, false, []float64{.707106, -.707106, .707106, -.707106}},
		{"passk", "grpo_passk", pairs, false, []float64{1.414212, 0, 1.414212, 0}},
		{"passk without std", "grpo_passk", pairs, true, []float64{1, 0, 1.5, 0}},
		{"passk, groups of one row", "grpo_passk", alone, false, []float64{0, 0, 0, 0}},
		{"rloo", "rloo", pairs, false, []float64{1, -1, 1.5, -1.5}},
		{"rloo, groups of one row", "rloo", alone, false, []float64{1, 0, .5, -1}},
		{"opo", "opo", pairs, false, []float64{.5, -.5, .75, -.75}},
		{"opo, groups of one row", "opo", alone, false, []float64{1, 0, .5, -1}},
		{"opo, one group", "opo", []string{"a", "a", "a", "a"}, false, []float64{1 - 2.5/14, -2.5 / 14, .5 - 2.5/14, -1 - 2.5/14}},
		{"gpg", "gpg", pairs, false, []float64{.666667, -.666667, 1, -1}},
		{"reinforce_plus_plus_baseline", "reinforce_plus_plus_baseline", pairs, false, []float64{.777593, -.777593, 1.16639, -1.16639}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := specRows(c.uids...)
			if err := Compute(c.estimator, rows, Options{Params: registry.Values{"norm_by_std": !c.noStd}}); err != nil {
				t.Fatal(err)
			}
			masked(t, "advantage", rows, advantages, flat(c.want...))
		})
	}
}

// TestTokenEstimators compares the estimators that compute an advantage for every token with
// the numbers of spec 12.1. At a gap between turns OpenManus-RL loses the reward or counts the
// tokens of the gap as sampled ones; the values here are the intended ones.
func TestTokenEstimators(t *testing.T) {
	for _, c := range []struct {
		name, estimator string
		o               Options
		returns, want   [][]float64
	}{
		{
			"gae", "gae", Options{Params: registry.Values{"norm_by_std": false, "gamma": 1.0, "lam": 1.0}},
			[][]float64{{1, 1, 0, 1, 1}, {0, 0, 0, 0, 0}, {.5, .5, .5, .5, .5}, {-1, -1, -1, 0, 0}},
			[][]float64{
				{1.444549, 1.268691, 0, .916975, .741116}, {-.138174, -.314032, -.138174, -.314032, 0},
				{.3894, 0, 0, .3894, .3894}, {-1.720897, -1.545039, -1.369181, 0, 0},
			},
		},
		{
			"gae with discount", "gae", Options{Params: registry.Values{"norm_by_std": false, "gamma": .9, "lam": .8}},
			[][]float64{{.507744, .6552, 0, .81, 1}, {.027331, .01296, .018, 0, 0}, {.32112, 0, 0, .396, .5}, {-.59328, -.774, -1, 0, 0}},
			[][]float64{
				{.952043, 1.073046, 0, .957795, 1.187276}, {-.017928, -.309551, -.041721, -.342596, 0},
				{.221213, 0, 0, .412141, .677319}, {-1.345376, -1.551195, -1.872468, 0, 0},
			},
		},
		{
			"reinforce", "reinforce", Options{Params: registry.Values{"norm_by_std": false, "gamma": .9}},
			[][]float64{{.729, .81, 0, .9, 1}, {0, 0, 0, 0, 0}, {.405, 0, 0, .45, .5}, {-.81, -.9, -1, 0, 0}},
			[][]float64{{.729, .81, 0, .9, 1}, {0, 0, 0, 0, 0}, {.405, 0, 0, .45, .5}, {-.81, -.9, -1, 0, 0}},
		},
		{
			// mean .148857, std .666215 over the fourteen returns
			"reinforce_plus_plus", "reinforce_plus_plus", Options{Params: registry.Values{"norm_by_std": false, "gamma": .9}},
			[][]float64{{.729, .81, 0, .9, 1}, {0, 0, 0, 0, 0}, {.405, 0, 0, .45, .5}, {-.81, -.9, -1, 0, 0}},
			[][]float64{
				{.870805, .992387, 0, 1.127479, 1.277580}, {-.223437, -.223437, -.223437, -.223437, 0},
				{.384475, 0, 0, .452021, .527072}, {-1.439261, -1.574353, -1.724455, 0, 0},
			},
		},
		{
			"remax", "remax", Options{Params: registry.Values{"norm_by_std": false}},
			flat(1, 0, .5, -1), flat(.8, -.2, .4, -1.1),
		},
		{
			"optimal_token_baseline", "optimal_token_baseline", Options{Params: registry.Values{"norm_by_std": false}}, flat(1, 0, .5, -1),
			[][]float64{
				{.379834, .283368, 0, .393039, .262514}, {-.620166, -.716632, -.606961, -.737486, 0},
				{-.399378, 0, 0, -.128404, .053075}, {-1.899378, -1.628404, -1.446925, 0, 0},
			},
		},
		{
			"tir_optimal_token_baseline", "tir_optimal_token_baseline", Options{Params: registry.Values{"norm_by_std": false}}, flat(1, 0, .5, -1),
			[][]float64{
				{.379834, .283368, 0, .393039, .262514}, {-.620166, -.716632, -.606961, -.737486, 0},
				{-.399378, 0, 0, -.128404, .053075}, {-1.899378, -1.628404, -1.446925, 0, 0},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := specRows("a", "a", "b", "b")
			if err := Compute(c.estimator, rows, c.o); err != nil {
				t.Fatal(err)
			}
			masked(t, "return", rows, returnsOf, c.returns)
			masked(t, "advantage", rows, advantages, c.want)
		})
	}
}

// TestGiGPO compares gigpo with spec 12.5: two episodes of one task, with turns of one token.
func TestGiGPO(t *testing.T) {
	episode := func(observations []string, rewards ...float32) data.Row {
		n := len(rewards)
		r := data.Row{UID: "a", Tokens: make([]int32, n), Mask: slices.Repeat([]uint8{1}, n), Rewards: rewards}
		for k := range rewards {
			r.Turns = append(r.Turns, data.Turn{Start: k, End: k + 1, Observation: observations[k]})
		}
		return r
	}
	for _, c := range []struct {
		name, norm string
		weight     float64
		want       [][]float64
	}{
		{"episode part", MeanNorm, 0, [][]float64{{.5, .5, .5}, {-.5, -.5}}},
		{"episode part with std", MeanStdNorm, 0, [][]float64{{.707106, .707106, .707106}, {-.707106, -.707106}}},
		{"both", MeanNorm, 1, [][]float64{{.5 + .405, .5 + .45, .5}, {-.5 - .405, -.5 - .45}}},
		{"both with std", MeanStdNorm, 1, [][]float64{{1.414212, 1.414212, .707106}, {-1.414212, -1.414212}}},
		{"turns count half", MeanNorm, .5, [][]float64{{.5 + .2025, .5 + .225, .5}, {-.5 - .2025, -.5 - .225}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := []data.Row{episode([]string{"s1", "s2", "end"}, 0, 0, 1), episode([]string{"s1", "s9"}, 0, 0)}
			o := Options{Params: registry.Values{"norm_by_std": false, "gamma": .9, "gigpo_step_weight": c.weight, "gigpo_norm": c.norm}}
			if err := Compute("gigpo", rows, o); err != nil {
				t.Fatal(err)
			}
			masked(t, "advantage", rows, advantages, c.want)
		})
	}
	// The returns of the three turns.
	r := episode([]string{"", "", ""}, 0, 0, 1)
	for k, want := range []float64{.81, .9, 1} {
		if got := (Options{Params: registry.Values{"norm_by_std": false, "gamma": .9}}).stepReturns(&r)[k]; math.Abs(got-want) > 1e-6 {
			t.Errorf("step return %d is %g, want %g", k, got, want)
		}
	}
	if err := Compute("gigpo", []data.Row{r}, Options{Params: registry.Values{"norm_by_std": false, "gigpo_norm": "std"}}); err == nil {
		t.Error("an unknown norm was accepted")
	}
}

// TestWhiten compares whiten with spec 12.1, masked_whiten(V, M), row 0. A gap between turns does
// not enter the mean.
func TestWhiten(t *testing.T) {
	rows := specRows("a", "a", "b", "b")
	for i := range rows {
		rows[i].Advantages = slices.Clone(rows[i].Values)
		for j, m := range rows[i].Mask {
			rows[i].Advantages[j] *= float32(m)
		}
	}
	whiten(rows)
	masked(t, "whitened", rows[:1], advantages, [][]float64{{0, .465475, 0, 1.396424, 1.861898}})
	one := []data.Row{{Mask: []uint8{0, 1}, Advantages: []float32{0, 3}}}
	if whiten(one); one[0].Advantages[1] != 3 {
		t.Errorf("the only sampled token was whitened to %g, want 3, unchanged", one[0].Advantages[1])
	}
}

// TestEveryEstimator checks that every estimator returns finite values and rejects rows without
// a required field. A grouped estimator returns 0 for groups of equal scores.
func TestEveryEstimator(t *testing.T) {
	o := Options{Params: registry.Values{"norm_by_std": true, "gamma": .9, "lam": .8, "gigpo_step_weight": 1.0, "gigpo_norm": MeanStdNorm}}
	for _, name := range Estimators.Names() {
		t.Run(name, func(t *testing.T) {
			e, err := Estimators.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			rows := specRows("a", "a", "b", "b")
			for i := range rows {
				rows[i].Rewards = []float32{.5, 0, 0, 0, 0}
				rows[i].Turns = []data.Turn{{Start: 0, End: 1}}
			}
			if err := Compute(name, rows, o); err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				for j, a := range rows[i].Advantages {
					if math.IsNaN(float64(a)) || math.IsInf(float64(a), 0) || rows[i].Mask[j] == 0 && a != 0 || e.Grouped && math.Abs(float64(a)) > 1e-6 {
						t.Errorf("advantage[%d][%d] is %g, want it finite, 0 outside the mask, and 0 in a group of equal scores", i, j, a)
					}
				}
			}
			for _, broken := range []struct {
				needed bool
				spoil  func(r *data.Row)
			}{
				{true, func(r *data.Row) { r.Rewards = nil }},
				{e.Needs.Values, func(r *data.Row) { r.Values = r.Values[:4] }},
				{e.Needs.SumPiSquared, func(r *data.Row) { r.SumPiSquared = nil }},
				{e.Needs.SumPiSquared, func(r *data.Row) { r.OldLogProbs = nil }},
				{e.Needs.Turns, func(r *data.Row) { r.Turns = nil }},
				{e.Needs.Baseline, func(r *data.Row) { r.Baseline = nil }},
				{e.Needs.Parts, func(r *data.Row) { r.Parts = nil }},
				{e.Needs.Parts, func(r *data.Row) { r.Parts = append(r.Parts, data.RewardPart{}) }},
			} {
				rows := specRows("a", "a", "b", "b")
				for i := range rows {
					rows[i].Turns = []data.Turn{{Start: 0, End: 1}}
				}
				broken.spoil(&rows[2])
				if err := Compute(name, rows, o); (err != nil) != broken.needed {
					t.Errorf("error %v for a row without a field, want one only if the estimator needs the field", err)
				}
			}
		})
	}
	if err := Compute("grpu", nil, o); err == nil || !strings.Contains(err.Error(), "grpo, grpo_passk") {
		t.Errorf("error %v for an unknown estimator, want a list of the estimators", err)
	}
}

// TestEmptyRow checks that every estimator accepts a row without a sampled token.
func TestEmptyRow(t *testing.T) {
	for _, name := range Estimators.Names() {
		rows := specRows("a", "a", "b", "b")
		for i := range rows {
			rows[i].Turns = []data.Turn{{Start: 0, End: 1}}
		}
		rows[1].Mask, rows[1].Turns = make([]uint8, 5), nil
		if err := Compute(name, rows, Options{Params: registry.Values{"norm_by_std": false, "gamma": 1.0, "lam": 1.0, "gigpo_norm": MeanNorm}}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for j, a := range rows[1].Advantages {
			if a != 0 {
				t.Errorf("%s: advantage[1][%d] is %g, want 0", name, j, a)
			}
		}
	}
}

func TestResample(t *testing.T) {
	rows := specRows("a", "b", "c", "d") // scores 1, 0, .5, -1
	for i := range rows {
		rows[i].Score = rows[i].RewardSum()
		rows[i].Rewards = nil // Resample must not read the rewards, because a KL may have changed them
	}
	counts := func(name string) map[string]int {
		n := map[string]int{}
		for step := range uint64(200) {
			out, err := Resample(rows, name, nil, 7, step)
			if err != nil || len(out) != len(rows) {
				t.Fatalf("%s: Resample returned %d rows, error %v", name, len(out), err)
			}
			for _, r := range out {
				n[r.UID]++
			}
		}
		return n
	}
	// Expected counts of 800 draws: weights 1, 0, .25, 1; then 1, 0, 0, 1; then .4, .1, .1, .1.
	for name, want := range map[string][4]float64{
		"pow": {355.6, 0, 88.9, 355.6}, "max_min": {400, 0, 0, 400}, "max_random": {457.1, 114.3, 114.3, 114.3},
	} {
		n := counts(name)
		for i, uid := range []string{"a", "b", "c", "d"} {
			if got := float64(n[uid]); want[i] == 0 && got != 0 || math.Abs(got-want[i]) > 75 {
				t.Errorf("%s draws %s %g times of 800, want about %g", name, uid, got, want[i])
			}
		}
	}
	first, err := Resample(rows, "pow", nil, 7, 3)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Resample(rows, "pow", nil, 7, 3)
	for i := range first {
		if first[i].UID != again[i].UID {
			t.Error("the same seed and step drew other rows")
		}
	}
	zero := specRows("a", "b")[1:]
	if out, err := Resample(zero, "pow", nil, 7, 3); err != nil || len(out) != 1 || out[0].UID != "b" {
		t.Errorf("Resample of a row with weight 0 = %v, %v, want it unchanged", out, err)
	}
	if _, err := Resample(rows, "best", nil, 7, 3); err == nil {
		t.Error("an unknown weighting was accepted")
	}
}

// TestRoundingIsNoSpread checks that episodes of a group with equal scores have the advantage 0 for
// any number of tokens, although a score that is distributed over tokens is rounded on each token.
// A real difference between scores is kept.
func TestRoundingIsNoSpread(t *testing.T) {
	o := Options{Params: registry.Values{"norm_by_std": true, "gamma": 1.0, "lam": 1.0, "gigpo_step_weight": 1.0, "gigpo_norm": MeanStdNorm}}
	group := func(scores ...float64) []data.Row {
		rows := make([]data.Row, len(scores))
		for i, score := range scores {
			n := 3 - i%2
			share := float32(score / float64(n))
			rows[i] = data.Row{
				UID: "a", Tokens: make([]int32, n), Mask: slices.Repeat([]uint8{1}, n), Rewards: slices.Repeat([]float32{share}, n),
				Turns: []data.Turn{{End: n}},
			}
		}
		return rows
	}
	if rows := group(1, 1); rows[0].RewardSum() == rows[1].RewardSum() {
		t.Fatal("the rounded sums are equal, so the test checks nothing")
	}
	for _, name := range []string{"grpo", "grpo_vectorized", "rloo", "gigpo"} {
		for _, score := range []float64{1, .7, 100} {
			rows := group(score, score, score)
			if err := Compute(name, rows, o); err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				for _, a := range rows[i].Advantages {
					if math.Abs(float64(a)) > 1e-6 { // not exactly 0, because the mean of equal scores is rounded
						t.Errorf("%s: the advantage of row %d in a group of scores %g is %g, want 0", name, i, score, a)
					}
				}
			}
		}
		rows := group(1, 1.0001)
		if err := Compute(name, rows, o); err != nil {
			t.Fatal(err)
		}
		if !(rows[0].Advantages[0] < 0) || !(rows[1].Advantages[0] > 0) {
			t.Errorf("%s: the advantages %v and %v do not show the difference of 1e-4", name, rows[0].Advantages, rows[1].Advantages)
		}
	}
}

// TestGiGPOAnchorsAtTheReset checks that a turn after an observation that equals the observation of
// the reset has the same anchor as the first turn. First turns after different resets have
// different anchors.
func TestGiGPOAnchorsAtTheReset(t *testing.T) {
	episode := func(first string, observations []string, rewards ...float32) data.Row {
		n := len(rewards)
		r := data.Row{UID: "a", Tokens: make([]int32, n), Mask: slices.Repeat([]uint8{1}, n), Rewards: rewards, FirstObservation: first}
		for k := range rewards {
			r.Turns = append(r.Turns, data.Turn{Start: k, End: k + 1, Observation: observations[k]})
		}
		return r
	}
	o := Options{Params: registry.Values{"norm_by_std": false, "gamma": .5, "gigpo_step_weight": 1.0, "gigpo_norm": MeanNorm}}
	for _, c := range []struct {
		name string
		rows []data.Row
		want [][]float64 // A^S; the scores are 1 and 0, so A^E is ±1/2
	}{
		// The first reply changes nothing: turns 1 and 2 of the first episode and
		// turn 1 of the second episode are one group, with returns .5, 1 and 0.
		{"the start is observed again", []data.Row{
			episode("start", []string{"start", "goal"}, 0, 1), episode("start", []string{"else"}, 0),
		}, [][]float64{{0, .5}, {-.5}}},
		{"different starts", []data.Row{
			episode("start", []string{"goal"}, 1), episode("elsewhere", []string{"end"}, 0),
		}, [][]float64{{0}, {0}}},
		{"starts that were not recorded", []data.Row{
			episode("", []string{"", "goal"}, 0, 1), episode("", []string{"end"}, 0),
		}, [][]float64{{.25, 0}, {-.25}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, sign := range []float64{.5, -.5} {
				for k := range c.want[i] {
					c.want[i][k] += sign
				}
			}
			if err := Compute("gigpo", c.rows, o); err != nil {
				t.Fatal(err)
			}
			masked(t, "advantage", c.rows, advantages, c.want)
		})
	}
}

// TestGiGPOPenaltyAffectsOneTurn checks that the penalty of an invalid action affects only its
// turn: it lowers the advantage of the turn in the group of episodes and among the turns of its
// anchor. Earlier turns do not change. The penalty is already subtracted at the turn's last token.
func TestGiGPOPenaltyAffectsOneTurn(t *testing.T) {
	rows := func() []data.Row {
		turn := func(k int, parsed bool) data.Turn {
			return data.Turn{Start: 2 * k, End: 2*k + 2, Parsed: parsed, Observation: fmt.Sprint("s", k+1)}
		}
		row := func(rewards []float32, second bool) data.Row {
			return data.Row{
				UID: "a", Tokens: make([]int32, 6), Mask: []uint8{1, 1, 1, 1, 1, 1}, Rewards: rewards, FirstObservation: "s0",
				Turns: []data.Turn{turn(0, true), turn(1, second), turn(2, true)},
			}
		}
		return []data.Row{row([]float32{0, 0, 0, -.5, 0, 1}, false), row(make([]float32, 6), true)}
	}
	for norm, want := range map[string][2][3]float64{
		// The scores s are 1 and 0, minus .5 for one of the first episode's three turns: their mean is 5/12.
		// The returns g of the first episode are .25, .5 and 1; the second is reduced by the penalty of .5.
		MeanNorm: {{7./12 + .125, 1. / 12, 7./12 + .5}, {-5./12 - .125, -5. / 12, -5./12 - .5}},
	} {
		got := rows()
		if err := Compute("gigpo", got, Options{Params: registry.Values{"norm_by_std": false, "gamma": .5, "gigpo_step_weight": 1.0, "gigpo_norm": norm}, InvalidActionPenalty: .5}); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			masked(t, norm, got[i:i+1], advantages, [][]float64{{want[i][0], want[i][0], want[i][1], want[i][1], want[i][2], want[i][2]}})
		}
	}
	// Divided by the standard deviation, advantages are of the order of 1, also if turns
	// differ only by penalties.
	alike := rows()
	alike[1] = rows()[0]
	if err := Compute("gigpo", alike, Options{Params: registry.Values{"norm_by_std": false, "gamma": .5, "gigpo_step_weight": 1.0, "gigpo_norm": MeanStdNorm}, InvalidActionPenalty: .5}); err != nil {
		t.Fatal(err)
	}
	// The turns of each episode deviate from the mean by 1/6, -1/3, 1/6: a variance of 2(1/36 + 1/9 + 1/36)/3 = 1/9.
	masked(t, "alike", alike, advantages, [][]float64{{.5, .5, -1, -1, .5, .5}, {.5, .5, -1, -1, .5, .5}})
}

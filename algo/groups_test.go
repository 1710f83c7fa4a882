package algo

import (
	"slices"
	"testing"

	"github.com/openmanus/openmanus/algo/advantage"
	"github.com/openmanus/openmanus/data"
)

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

func TestDropZeroSpread(t *testing.T) {
	rows := specRows("a", "b", "b", "c")
	rows[1].Rewards = []float32{0, 0, 0, 0, .5} // b now has two equal scores
	kept, st, err := DropZeroSpread(append(rows, specRows("d", "d", "e", "f")[:2]...), GroupMetrics["seq_final_reward"])
	must(t, err)
	if len(kept) != 2 || kept[0].UID != "d" || kept[1].UID != "d" {
		t.Fatalf("DropZeroSpread kept %d rows, want the 2 of group d: %+v", len(kept), kept)
	}
	if st.ZeroSpread != 1 || st.Single != 2 {
		t.Fatalf("stats %+v, want ZeroSpread 1 and Single 2", st)
	}
}

func TestGroupMetricScore(t *testing.T) {
	rows := specRows("won", "won", "mixed", "mixed")
	for i, score := range []float64{1, 1, 1, 0} {
		rows[i].Score = score
		rows[i].EnvReward = min(score, .5)
	}
	rows[0].Rewards = []float32{0, 0, 0, 0, .5} // slower than the other episode
	rows[1].Rewards = []float32{0, 0, 0, 0, .75}
	rows[2].Score = .75 // an overlong success; the other episode failed
	won := specRows("won", "won", "lost", "lost")
	for i := range won { // each group has an overlong episode and equal accuracy
		won[i].Score, won[i].EnvReward = []float64{1, .5, 0, -.5}[i], []float64{1, 1, 0, 0}[i]
	}
	for metric, want := range map[string]int{"score": 4, "env_reward": 0} {
		if kept, _, err := DropZeroSpread(won, GroupMetrics[metric]); err != nil || len(kept) != want {
			t.Errorf("with overlong episodes and the metric %s %d rows are kept (error %v), want %d", metric, len(kept), err, want)
		}
	}
	for metric, want := range map[string]int{"seq_final_reward": 4, "score": 2, "env_reward": 2} {
		if kept, _, err := DropZeroSpread(rows, GroupMetrics[metric]); err != nil || len(kept) != want || kept[len(kept)-1].UID != "mixed" {
			t.Errorf("with the metric %s %d rows are kept, want %d, the last one of group mixed", metric, len(kept), want)
		}
	}
}

// TestRoundingIsNoSpread checks that two equal scores count as equal despite
// rounding if one is distributed over three tokens and the other over two.
func TestRoundingIsNoSpread(t *testing.T) {
	third := float32(1. / 3)
	rows := []data.Row{
		{UID: "won", Tokens: make([]int32, 3), Mask: []uint8{1, 1, 1}, Rewards: []float32{third, third, third}},
		{UID: "won", Tokens: make([]int32, 2), Mask: []uint8{1, 1}, Rewards: []float32{.5, .5}},
	}
	kept, stats, err := DropZeroSpread(rows, GroupMetrics["seq_final_reward"])
	must(t, err)
	if len(kept) != 0 || stats.ZeroSpread != 1 {
		t.Errorf("%d rows are kept with stats %+v, want 0 rows and ZeroSpread 1", len(kept), stats)
	}
}

// TestAloneInItsGroup checks that an episode has no advantage under estimators that compare within
// groups if the servers lost all other episodes of its group. gpg keeps groups without spread,
// since its factor includes their rows.
func TestAloneInItsGroup(t *testing.T) {
	for name, want := range map[string][]string{
		"grpo": {"a", "a"}, "rloo": {"a", "a"}, "gpg": {"a", "a", "c", "c"}, "reinforce_plus_plus_baseline": {"a", "a", "c", "c"},
		"reinforce": {"a", "a", "alone", "c", "c"},
	} {
		rows := specRows("a", "a", "alone", "c")
		rows[3].Rewards = rows[1].Rewards
		rows = append(rows, rows[3])
		for i := range rows {
			rows[i].Sample = i
		}
		o := Options{Play: Play{FilterMetric: "seq_final_reward"}, Update: Update{Estimator: name, DropZeroSpread: true}}
		estimator, err := advantage.Estimators.Lookup(name)
		must(t, err)
		tr := &policyGradient{player: player{core: &core{o: o}, estimator: estimator}}
		m := Metrics{}
		kept, err := tr.advantages(1, rows, m)
		must(t, err)
		var got []string
		for _, r := range kept {
			got = append(got, r.UID)
		}
		if !slices.Equal(got, want) || m["group/dropped_rows"] != float64(len(rows)-len(want)) || name != "reinforce" && m["group/single"] != 1 {
			t.Errorf("%s learns from the rows %v, want %v; %v rows are left out and %v groups are single", name, got, want, m["group/dropped_rows"], m["group/single"])
		}
	}
}

package algo

import (
	"math"
	"testing"

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

// Spec 12.1, "row scalars".
func TestGRPO(t *testing.T) {
	for _, c := range []struct {
		name  string
		uids  []string
		noStd bool
		want  []float64
	}{
		{"grpo", []string{"a", "a", "b", "b"}, false, []float64{.707106, -.707106, .707106, -.707106}},
		{"every row its own group", []string{"a", "b", "c", "d"}, false, []float64{.999999, 0, .5, -.999999}},
		{"without std", []string{"a", "a", "b", "b"}, true, []float64{.5, -.5, .75, -.75}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := specRows(c.uids...)
			if err := ComputeAdvantages("grpo", rows, EstimatorOptions{NormByStd: !c.noStd}); err != nil {
				t.Fatal(err)
			}
			for i, r := range rows {
				for j, m := range r.Mask {
					want := c.want[i] * float64(m)
					if d := math.Abs(float64(r.Advantages[j]) - want); d > 1e-5 {
						t.Errorf("advantage[%d][%d] = %g, want %g", i, j, r.Advantages[j], want)
					}
				}
			}
		})
	}
}

func TestGRPORefusesRowsWithoutRewards(t *testing.T) {
	rows := specRows("a", "a", "b", "b")
	rows[2].Rewards = nil
	if err := ComputeAdvantages("grpo", rows, EstimatorOptions{}); err == nil {
		t.Fatal("a row without rewards was accepted")
	}
	if err := ComputeAdvantages("gae", rows, EstimatorOptions{}); err == nil {
		t.Fatal("an unknown estimator was accepted")
	}
}

func TestDropZeroSpread(t *testing.T) {
	rows := specRows("a", "b", "b", "c")
	rows[1].Rewards = []float32{0, 0, 0, 0, .5} // b now has two equal scores
	kept, st := DropZeroSpread(append(rows, specRows("d", "d", "e", "f")[:2]...), GroupMetrics["seq_final_reward"])
	if len(kept) != 2 || kept[0].UID != "d" || kept[1].UID != "d" {
		t.Fatalf("kept %d rows: %+v", len(kept), kept)
	}
	if st.Groups != 4 || st.ZeroSpread != 1 || st.Single != 2 {
		t.Fatalf("stats %+v", st)
	}
}

func TestGroupMetricScore(t *testing.T) {
	rows := specRows("won", "won", "mixed", "mixed")
	for i, score := range []float64{1, 1, 1, 0} {
		rows[i].Score = score
	}
	rows[0].Rewards = []float32{0, 0, 0, 0, .5} // slower than its neighbour
	rows[1].Rewards = []float32{0, 0, 0, 0, .75}
	for metric, want := range map[string]int{"seq_final_reward": 4, "score": 2} {
		if kept, _ := DropZeroSpread(rows, GroupMetrics[metric]); len(kept) != want || kept[len(kept)-1].UID != "mixed" {
			t.Errorf("by %s %d rows are kept, want %d", metric, len(kept), want)
		}
	}
}

// Spec 12.3: x = LP - REF of row 0 and the masked means over all rows.
func TestKLEstimate(t *testing.T) {
	x := []float64{.2, -.3, 0, -.1, .7}
	want := map[string][]float64{
		"k1":  {.2, -.3, 0, -.1, .7},
		"abs": {.2, .3, 0, .1, .7},
		"k2":  {.02, .045, 0, .005, .245},
		"k3":  {.018731, .049859, 0, .005171, .196585},
	}
	for kind, values := range want {
		for i := range x {
			if got := KLEstimate(kind, x[i]); math.Abs(got-values[i]) > 1e-5 {
				t.Errorf("%s(%g) = %g, want %g", kind, x[i], got, values[i])
			}
		}
	}
	// The masked means of spec 12.3, over all four rows.
	lp := [][]float64{{-.9, -2.2, -.5, -.2, -2.5}, {-.7, -.2, -.6, -.4, -.3}, {-1.5, -2, -2, -2.5, -2.1}, {-.5, -.4, -.3, -.8, -1}}
	ref := [][]float64{{-1.1, -1.9, -.5, -.1, -3.2}, {-.7, -.8, -.5, -.5, -.3}, {-2, -2, -2, -2.2, -1.9}, {-.2, -.3, -.6, -.8, -1}}
	for kind, want := range map[string]float64{"k1": .071429, "abs": .271429, "k2": .056429, "k3": .050200} {
		sum, n := 0.0, 0.0
		for i, row := range specRows("a", "a", "b", "b") {
			for j, m := range row.Mask {
				sum += KLEstimate(kind, lp[i][j]-ref[i][j]) * float64(m)
				n += float64(m)
			}
		}
		if got := sum / n; math.Abs(got-want) > 1e-5 {
			t.Errorf("masked mean of %s is %g, want %g", kind, got, want)
		}
	}
	if got := KLEstimate("k3", -1000); got != 10 {
		t.Errorf("k3 of an absurd ratio is %g, want the clamp 10", got)
	}
}

func TestSplit(t *testing.T) {
	rows := make([]data.Row, 5)
	for i := range rows {
		rows[i].Tokens = make([]int32, 10*(i+1))
	}
	sizes := func(m MicroBatching) (out []int) {
		batches, err := m.Split(rows)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			out = append(out, len(b))
		}
		return out
	}
	for _, c := range []struct {
		m    MicroBatching
		want []int
	}{
		{MicroBatching{}, []int{5}},
		{MicroBatching{Rows: 2}, []int{2, 2, 1}},
		{MicroBatching{MaxTokens: 60}, []int{3, 1, 1}},
		{MicroBatching{Rows: 2, MaxTokens: 60}, []int{2, 1, 1, 1}},
	} {
		got := sizes(c.m)
		if len(got) != len(c.want) {
			t.Fatalf("%+v: %v, want %v", c.m, got, c.want)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Fatalf("%+v: %v, want %v", c.m, got, c.want)
			}
		}
	}
	if _, err := (MicroBatching{MaxTokens: 40}).Split(rows); err == nil {
		t.Fatal("a row over the budget was accepted")
	}
}

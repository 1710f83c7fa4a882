package advantage

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/registry"
)

// golden is one case of testdata/make_goldens.py, with the advantages that verl's code computes.
type golden struct {
	Name, Estimator     string
	UIDs                []string
	Mask                [][]float32
	Rewards             [][]float32
	Old                 [][]float32
	SumPiSquared        [][]float32 `json:"sum_pi_squared"`
	Weights             [][]float32
	Parts               [][]data.RewardPart
	NoStd               bool `json:"no_std"`
	Advantages, Returns [][]float64
}

func goldens(t *testing.T, file string) []golden {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var cases []golden
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func (g golden) rows() []data.Row {
	rows := make([]data.Row, len(g.UIDs))
	for i := range rows {
		r := data.Row{UID: g.UIDs[i], Tokens: make([]int32, len(g.Mask[i])), Rewards: g.Rewards[i]}
		for _, m := range g.Mask[i] {
			r.Mask = append(r.Mask, uint8(m))
		}
		if g.Old != nil {
			r.OldLogProbs, r.SumPiSquared = g.Old[i], g.SumPiSquared[i]
		}
		if g.Weights != nil {
			r.Weights = g.Weights[i]
		}
		if g.Parts != nil {
			r.Parts = g.Parts[i]
		}
		rows[i] = r
	}
	return rows
}

// TestEstimatorsOfVerl checks that the discounted and the grouped estimators give the same
// advantages as verl, also for nearly equal rewards and for rows of several turns.
func TestEstimatorsOfVerl(t *testing.T) {
	for _, g := range goldens(t, "compared.json") {
		t.Run(g.Estimator+", "+g.Name, func(t *testing.T) {
			rows := g.rows()
			if err := Compute(g.Estimator, rows, Options{Params: registry.Values{"norm_by_std": !g.NoStd, "gamma": .9}}); err != nil {
				t.Fatal(err)
			}
			masked(t, "advantage", rows, advantages, g.Advantages)
			masked(t, "return", rows, returnsOf, g.Returns)
		})
	}
}

// TestOptimalTokenBaselineOfVerl compares both names of the optimal token baseline with verl. For
// rows of one turn verl compares tokens at the same position. For rows of several turns it compares
// the k-th sampled tokens, which gives the same result without observations. Beyond the second
// longest row of a group the baseline is 0.
func TestOptimalTokenBaselineOfVerl(t *testing.T) {
	for _, name := range []string{"optimal_token_baseline", "tir_optimal_token_baseline"} {
		for _, g := range goldens(t, "optimal_token.json") {
			t.Run(name+", "+g.Name, func(t *testing.T) {
				rows := g.rows()
				if err := Compute(name, rows, Options{Params: registry.Values{"norm_by_std": false}}); err != nil {
					t.Fatal(err)
				}
				masked(t, "advantage", rows, advantages, g.Advantages)
				masked(t, "return", rows, returnsOf, g.Returns)
			})
		}
	}
}

// TestOptimalTokenBaselineOfTheLongestRow checks that the baseline is 0 for a token at a position
// that no other row of the group reaches. If the baseline were the token's
// return, the token's advantage would always be 0.
func TestOptimalTokenBaselineOfTheLongestRow(t *testing.T) {
	rows := []data.Row{
		{UID: "a", Mask: []uint8{1, 1, 0, 0, 1, 1, 1}, Rewards: []float32{0, 0, 0, 0, 0, 0, 1}},
		{UID: "a", Mask: []uint8{1, 0, 0, 1, 1, 0, 0}, Rewards: []float32{0, 0, 0, 0, 0, 0, 0}},
	}
	for i := range rows {
		rows[i].Tokens = make([]int32, 7)
		rows[i].OldLogProbs, rows[i].SumPiSquared = []float32{-1, -1, -1, -1, -1, -1, -1}, []float32{.4, .4, .4, .4, .4, .4, .4}
	}
	if err := Compute("optimal_token_baseline", rows, Options{Params: registry.Values{"norm_by_std": false}}); err != nil {
		t.Fatal(err)
	}
	masked(t, "advantage", rows, advantages, [][]float64{{.5, .5, 0, 0, .5, 1, 1}, {-.5, 0, 0, -.5, -.5, 0, 0}})
}

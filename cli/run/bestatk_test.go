package run

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openmanus/openmanus/agent/eval"
)

// TestBestAtK compares bestAtK with the mean over all choices of k scores.
func TestBestAtK(t *testing.T) {
	for _, scores := range [][]float64{{2}, {-3, 0.5}, {1, 0, 0, 1, 0}, {0.25, -1, 7, 0.25, 3, 2}} {
		for k := 1; k <= len(scores); k++ {
			sum, n := 0.0, 0.0
			for chosen := range uint(1) << len(scores) {
				if bits.OnesCount(chosen) != k {
					continue
				}
				most := math.Inf(-1)
				for i, x := range scores {
					if chosen>>i&1 == 1 {
						most = max(most, x)
					}
				}
				sum += most
				n++
			}
			before := slices.Clone(scores)
			if got := bestAtK(scores, k); math.Abs(got-sum/n) > 1e-12 || !slices.Equal(scores, before) {
				t.Errorf("best@%d of %v is %v, want %v", k, before, got, sum/n)
			}
		}
	}
	ones := make([]float64, 2000) // here the binomial coefficients overflow a float64
	for i := range 3 {
		ones[i*7] = 1
	}
	if got, want := bestAtK(ones, 1000), eval.PassAtK(2000, 3, 1000); math.Abs(got-want) > 1e-9 {
		t.Errorf("best@1000 of 2000 replies is %v, pass@1000 %v", got, want)
	}
}

// TestScoreOfUnevenRows checks that all replies of all rows count if rows differ in
// their number of replies. With scores of 0 and 1, best@k equals pass@k.
func TestScoreOfUnevenRows(t *testing.T) {
	rows := []rowScores{{Scores: []float64{0, 0, 1, 0, 0}}, {Scores: []float64{0, 1}}}
	got := summarize(rows, 1)
	want := ScoreResult{Rows: 2, Samples: 2, Replies: 7, Metrics: map[string]float64{}, Scores: map[string]float64{
		"mean@2": 0.35, "best@1": 0.35, "pass@1": 0.35, "best@2": 0.7, "pass@2": 0.7,
	}}
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); d != "" {
		t.Error(d)
	}
	if text := got.String(); !strings.HasPrefix(text, "7 replies in 2 rows, at least 2 per row\n") {
		t.Error(text)
	}
	if text := summarize(rows[:1], 1).String(); !strings.HasPrefix(text, "1 rows x 5 replies\n") {
		t.Error(text)
	}
	for _, k := range eval.PassKs(5) {
		r := summarize(rows[:1], 1).Scores
		if best, pass := r[fmt.Sprintf("best@%d", k)], r[fmt.Sprintf("pass@%d", k)]; math.Abs(best-pass) > 1e-12 || pass == 0 {
			t.Errorf("best@%d %v, pass@%d %v", k, best, k, pass)
		}
	}
}

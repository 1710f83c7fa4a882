package rundir

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestWilson compares intervals with the values of statsmodels' proportion_confint(method="wilson").
func TestWilson(t *testing.T) {
	for _, c := range []struct{ p, n, lo, hi float64 }{
		{0, 0, 0, 1}, {0, 10, 0, 0.2775328}, {1, 128, 0.9708631, 1}, {0.5, 20, 0.2992980, 0.7007020},
	} {
		if lo, hi := Wilson(c.p, c.n); math.Abs(lo-c.lo) > 1e-6 || math.Abs(hi-c.hi) > 1e-6 {
			t.Errorf("Wilson(%g, %g) = %.7f, %.7f, want %.7f, %.7f", c.p, c.n, lo, hi, c.lo, c.hi)
		}
	}
}

func TestResults(t *testing.T) {
	one := map[string]float64{"val/maze/success_rate": 0.5, "val/maze/mean_score": 2, "val/maze/mean_turns": 3, "val/maze/episodes": 20, "val/overall/success_rate": 0.5}
	maze := Result{Env: "maze", Success: 0.5, Low: 0.299, High: 0.701, Score: 2, Turns: 3, Episodes: 20}
	near := cmpopts.EquateApprox(0, 1e-3)
	if d := cmp.Diff([]Result{maze}, (Validation{Metrics: one}).Results(), near); d != "" {
		t.Errorf("results of one environment (-want +got):\n%s", d)
	}
	one["val/wordle/success_rate"] = 0.5
	got := (Validation{Metrics: one}).Results()
	if len(got) != 3 || got[0].Env != "maze" || got[1].Env != "wordle" || got[2].Env != "overall" {
		t.Errorf("results of two environments: %+v, want maze, wordle, overall", got)
	}
}

package rundir

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWilson compares intervals with the values of statsmodels' proportion_confint(method="wilson").
func TestWilson(t *testing.T) {
	for _, c := range []struct{ p, n, lo, hi float64 }{
		{0, 0, 0, 1}, {math.NaN(), 10, 0, 1}, {1.1, 10, 0, 1}, {0, 10, 0, 0.2775328}, {1, 128, 0.9708631, 1}, {0.5, 20, 0.2992980, 0.7007020},
	} {
		if lo, hi := Wilson(c.p, c.n); math.Abs(lo-c.lo) > 1e-6 || math.Abs(hi-c.hi) > 1e-6 {
			t.Errorf("Wilson(%g, %g) = %.7f, %.7f, want %.7f, %.7f", c.p, c.n, lo, hi, c.lo, c.hi)
		}
	}
}

func TestResults(t *testing.T) {
	one := map[string]float64{"val/maze/success_rate": 0.5, "val/maze/mean_score": 2, "val/maze/mean_turns": 3, "val/maze/episodes": 20, "val/overall/success_rate": 0.5}
	maze := Result{Env: "maze", Success: 0.5, Low: 0.2992980081982123, High: 0.7007019918017877, Score: 2, Turns: 3, Episodes: 20}
	if d := cmp.Diff([]Result{maze}, (Validation{Metrics: one}).Results()); d != "" {
		t.Errorf("results of one environment (-want +got):\n%s", d)
	}
	if text, err := json.Marshal(Result{Env: "maze", Score: Number(math.NaN()), Turns: 2.5}); err != nil ||
		string(text) != `{"env":"maze","success":0,"low":0,"high":0,"score":null,"turns":2.5,"episodes":0}` {
		t.Errorf("JSON %s, %v", text, err)
	}
	one["val/wordle/success_rate"] = 0.5
	got := (Validation{Metrics: one}).Results()
	if len(got) != 3 || got[0].Env != "maze" || got[1].Env != "wordle" || got[2].Env != "overall" {
		t.Errorf("results of two environments: %+v, want maze, wordle, overall", got)
	}
}

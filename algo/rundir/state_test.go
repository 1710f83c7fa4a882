package rundir

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type metrics = map[string]float64

func TestBest(t *testing.T) {
	v := func(label string, step int, maze, mazes, wordle, wordles float64) Validation {
		return Validation{Label: label, Step: step, Metrics: metrics{
			"val/maze/success_rate": maze, "val/maze/episodes": mazes, "val/maze/mean_score": 1 - maze,
			"val/wordle/success_rate": wordle, "val/wordle/episodes": wordles,
		}}
	}
	var best *Best
	for _, c := range []struct {
		v    Validation
		want *Best
	}{
		{v(LabelUntrained, 0, 1, 10, 1, 10), nil}, // there is no checkpoint of these weights
		{Validation{Step: 0, Metrics: metrics{"val/maze/episodes": 0}}, nil},
		{v(LabelBefore, 0, .5, 10, 0, 30), &Best{"success_rate", .125, 0}},
		{v("step 2", 2, .25, 20, .25, 20), &Best{"success_rate", .25, 2}},
		{v("step 4", 4, .25, 20, .25, 20), &Best{"success_rate", .25, 2}}, // of two equal checkpoints the earlier is the best
		{v("step 6", 6, 0, 10, 0, 10), &Best{"success_rate", .25, 2}},
		{v(LabelAfter, 8, 1, 10, 0, 0), &Best{"success_rate", 1, 8}},
	} {
		best = best.Next(c.v, "success_rate")
		if d := cmp.Diff(c.want, best); d != "" {
			t.Errorf("the best checkpoint after the validation %q (-want +got):\n%s", c.v.Label, d)
		}
	}
	best = best.Next(v("step 10", 10, .75, 10, 0, 0), "mean_score") // the value of another metric is not compared
	if d := cmp.Diff(&Best{"mean_score", .25, 10}, best); d != "" {
		t.Errorf("the best checkpoint by another metric (-want +got):\n%s", d)
	}
	for step, loss := range []float64{2, 1, math.NaN(), 1.5, 1} {
		best = best.Next(Validation{Step: step, Metrics: metrics{"val/loss": loss}}, "loss") // for the loss lower is better
	}
	if d := cmp.Diff(&Best{"loss", 1, 1}, best); d != "" {
		t.Errorf("the best checkpoint by the loss (-want +got):\n%s", d)
	}
	if err := CheckBestMetric("reward"); err == nil || !strings.Contains(err.Error(), "success_rate, mean_score, loss") {
		t.Errorf("CheckBestMetric = %v, want a list of the metrics", err)
	}
}

// TestExactMetrics checks that the metrics in State.Unreported are unchanged after the state is
// written and read, including non-finite values.
func TestExactMetrics(t *testing.T) {
	st := State{Unreported: exactMetrics{"a": 0.1, "b": math.Inf(1), "c": math.Inf(-1), "d": 1e-300}}
	dir := t.TempDir()
	if err := st.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := ReadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range st.Unreported {
		if got.Unreported[name] != want {
			t.Errorf("%s is %v, want %v", name, got.Unreported[name], want)
		}
	}
}
